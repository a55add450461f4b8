// One message as people see it: what was said, how it stands with it, and what can be done with it.

import { fill, h } from "../lib/dom.js";
import { duration, number } from "../lib/format.js";
import { joined, split } from "./attachments.js";
import { pictureButton } from "./buttons.js";
import { copyButton } from "./copying.js";
import { faultWords } from "./faults.js";
import { icon } from "./icons.js";
import { say } from "./words.js";

let live = null; // Markdown and what it needs, which come with the first answer
const liveComing = () => (live ? null : import("./live.js").then((module) => (live = module)));

export class MessageView {
  /**
   * `acts`: {again, edit, goOn, show, stop}, each called with the message (show: an id; edit: also the new words).
   */
  constructor(message, acts) {
    this.message = message;
    this.#acts = acts;
    this.element = h(
      "article",
      { class: `message ${message.role}` },
      h("h2", { class: "unseen" }, message.role === "user" ? say("you") : message.model),
      message.role === "assistant" && this.#thinking,
      this.#body,
      this.#status,
      this.#foot,
    );
    if (message.role === "user") this.#showQuestion();
  }

  #acts;
  #body = h("div", { class: "body" });
  #thinking = h("details", { class: "thinking", hidden: true }, h("summary", {}, say("thinking")), h("div", {}));
  #status = h("div", { class: "status" });
  #foot = h("div", { class: "foot" });
  #growing = null; // the body's LiveMarkdown while it grows
  #shown = null; // what of the message stands in the body for good

  /** `branches`: the messages at its place. `busy`: an answer is under way, so that nothing else can be asked. */
  update(branches, busy) {
    this.#foot.replaceChildren(...this.#actions(branches, busy));
    if (this.message.role === "assistant") this.grow();
  }

  /** After a piece of the answer has come. */
  grow() {
    const { message } = this;
    this.element.setAttribute("aria-busy", String(message.state === "running"));
    this.#thinking.hidden = !message.reasoning;
    if (message.reasoning) this.#thinking.lastChild.textContent = message.reasoning;
    fill(this.#status, standing(message, this.#acts));
    this.#showAnswer();
  }

  editing() {
    const { files, text } = split(this.message.content);
    const field = h("textarea", { class: "editor", value: text, "aria-label": say("edit") });
    const back = () => this.#showQuestion();
    const send = () => this.#acts.edit(this.message, joined(files, field.value));
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || event.keyCode === 229) return;
      if (event.key === "Escape") back();
      if (event.key === "Enter" && !event.shiftKey) (event.preventDefault(), send());
    });
    const buttons = [
      h("button", { type: "button", class: "small", onclick: back }, say("cancel")),
      h("button", { type: "button", class: "small primary", onclick: send }, say("send")),
    ];
    this.#body.classList.add("open");
    fill(this.#body, field, h("div", { class: "actions" }, buttons));
    field.focus();
  }

  #showQuestion() {
    const { files, text } = split(this.message.content);
    const attached = files.map((file) =>
      h("details", { class: "file" }, h("summary", {}, icon("clip"), file.name), h("pre", { tabIndex: 0 }, file.text)),
    );
    this.#body.classList.remove("open");
    fill(this.#body, attached, h("div", { class: "plain-text" }, text));
  }

  #showAnswer() {
    const { content, state } = this.message;
    if (this.#shown === content && state !== "running") return;
    if (!live) {
      this.#body.textContent = content;
      this.#body.classList.add("plain-text");
      if (content) liveComing().then(() => this.#showAnswer());
      return;
    }
    this.#body.classList.remove("plain-text");
    this.#growing ??= new live.LiveMarkdown(this.#body);
    if (state === "running") {
      this.#shown = null;
      this.#growing.update(content);
    } else {
      this.#growing.finish(content);
      this.#growing = null;
      this.#shown = content;
    }
  }

  #actions(branches, busy) {
    const { message } = this;
    if (message.state === "running") return [];
    const asked = message.role === "user";
    const copied = asked ? split(message.content).text : message.content;
    const cut = message.finish_reason === "length" || message.state === "stopped" || message.state === "failed";
    return [
      ...(branches.length > 1 ? [versions(message, branches, busy, this.#acts)] : []),
      ...(copied ? [copyButton(() => copied)] : []),
      ...(busy ? [] : [asked ? pictureButton("edit", "edit", () => this.editing()) : again(message, this.#acts)]),
      ...(!busy && !asked && cut && message.content ? [goOn(message, this.#acts)] : []),
      ...(asked ? [] : [h("span", { class: "soft" }, spent(message))]),
    ];
  }
}

function again(message, acts) {
  const go = () => acts.again(message);
  if (!message.error) return pictureButton("again", "again", go);
  return h("button", { type: "button", class: "small", onclick: go }, icon("again"), say("try_again"));
}

function goOn(message, acts) {
  return h(
    "button",
    { type: "button", class: "plain small go-on", onclick: () => acts.goOn(message) },
    icon("onward"),
    say("go_on"),
  );
}

function versions(message, branches, busy, acts) {
  const at = branches.indexOf(message);
  const step = (by, words, picture) =>
    pictureButton(words, picture, () => acts.show(branches[at + by].id), { disabled: busy || !branches[at + by] });
  const count = h(
    "span",
    { "aria-label": say("version", { number: at + 1, count: branches.length }), role: "img" },
    `${at + 1}/${branches.length}`,
  );
  return h("span", { class: "versions" }, step(-1, "earlier", "before"), count, step(1, "later", "after"));
}

function spent({ model, usage, seconds }) {
  const tokens = usage?.completion_tokens;
  const cost = tokens && seconds ? say("spent", { tokens: number(tokens), wait: duration(seconds) }) : "";
  return [model, cost].filter(Boolean).join(" · ");
}

// What is to be said of an answer beside its words.
function standing(message, acts) {
  const parts = [];
  if (message.notice === "moved") parts.push(h("p", { class: "soft" }, say("moved")));
  if (message.reconnecting) parts.push(h("p", { class: "soft" }, say("reconnecting")));
  else if (message.queue) parts.push(inLine(message, acts));
  else if (message.state === "running" && !message.content) parts.push(h("p", { class: "working" }, say("working")));
  if (message.state === "stopped") parts.push(h("p", { class: "soft" }, say("stopped")));
  if (message.finish_reason === "length") parts.push(h("p", { class: "soft" }, say("cut")));
  if (message.error) parts.push(faultWords(message.error));
  return parts;
}

function inLine({ queue: { position, seconds } }, acts) {
  const wait = seconds > 0 ? ` ${say("queue_wait", { wait: about(seconds) })}` : "";
  const leave = h("button", { type: "button", class: "small", onclick: acts.stop }, say("leave"));
  return h("div", { class: "notice queue" }, h("p", {}, say("queue", { position: number(position) }), wait), leave);
}

// An estimate is told in whole seconds.
function about(seconds) {
  return seconds < 60 ? say("seconds", { count: number(Math.ceil(seconds)) }) : duration(seconds);
}
