// The messages that are shown, one view each. While an answer grows the page stays at its end, unless the reader has
// scrolled away from there.

import { fill, h } from "../lib/dom.js";
import { announce } from "./announce.js";
import { pictureButton } from "./buttons.js";
import { MessageView } from "./message.js";
import { siblings } from "./tree.js";
import { say } from "./words.js";

const AT_END = 60; // px from the end that still are at it

export class Thread {
  constructor(session) {
    this.#session = session;
    this.#acts = {
      again: (message) => session.again(message),
      edit: (message, words) => session.edit(message, words),
      goOn: (message) => session.goOn(message),
      show: (id) => session.show(id),
      stop: () => session.stop(),
    };
    this.element = h("div", { class: "stage" }, this.#frame, this.#toLatest);
    this.#frame.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    // Blocks, pictures of formulas and late fonts change the height long after a piece of text has come.
    new ResizeObserver(() => (this.#follows ? this.toEnd() : this.#scrolled())).observe(this.#list);
    session.addEventListener("changed", () => this.#changed());
    session.addEventListener("asked", () => this.toEnd());
    session.addEventListener("message", ({ detail }) => this.#views.get(detail)?.grow());
    session.addEventListener("started", ({ detail }) => this.#views.has(detail) && announce(say("answer_began")));
    session.addEventListener(
      "ended",
      ({ detail }) => this.#views.has(detail) && announce(say(`answer_${detail.state}`)),
    );
  }

  #session;
  #acts;
  #views = new Map(); // by message
  #list = h("div", { class: "messages" });
  #frame = h("section", { class: "thread", "aria-label": say("conversation"), tabIndex: 0 }, this.#list);
  #toLatest = pictureButton("to_latest", "down", () => this.toEnd(), { class: "to-latest", hidden: true });
  #follows = true;

  toEnd() {
    this.#follows = true;
    this.#frame.scrollTop = this.#frame.scrollHeight;
  }

  /** Opens the last question for editing; false where there is none. */
  editLast() {
    const last = this.#session.path.findLast(({ role }) => role === "user");
    if (!last || this.#session.answering) return false;
    this.#views.get(last).editing();
    return true;
  }

  get lastAnswer() {
    return this.#session.path.findLast(({ role }) => role === "assistant")?.content ?? "";
  }

  #changed() {
    const { path, conversation, answering } = this.#session;
    const views = new Map(
      path.map((message) => [message, this.#views.get(message) ?? new MessageView(message, this.#acts)]),
    );
    this.#views = views;
    const elements = [...views.values()].map(({ element }) => element);
    if (elements.length !== this.#list.children.length || elements.some((one, at) => one !== this.#list.children[at])) {
      fill(this.#list, elements);
    }
    for (const [message, view] of views) view.update(siblings(conversation.messages, message), Boolean(answering));
    if (this.#follows) this.toEnd();
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#frame;
    this.#follows = scrollHeight - scrollTop - clientHeight < AT_END;
    this.#toLatest.hidden = this.#follows;
  }
}
