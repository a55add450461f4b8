// The field: what is typed, the files that go with it, and how long it may be. Enter sends, but never while a word is
// being composed.

import { fill, h } from "../lib/dom.js";
import { bytes, number } from "../lib/format.js";
import { joined } from "./attachments.js";
import { pictureButton } from "./buttons.js";
import { ACCEPTED, readFile } from "./files.js";
import { icon } from "./icons.js";
import { estimate, estimateAll } from "./tokens.js";
import { say } from "./words.js";

const KEPT = "sekisho-draft-"; // in this tab, so that a reload loses nothing
const COUNTED_FROM = 0.25; // of the context: below it the count is only noise
const GROWS = CSS.supports("field-sizing", "content"); // by itself, as composer.css asks
const coarse = matchMedia("(pointer: coarse)"); // a telephone's Enter is a new line; it has a button to send

export class Composer {
  /** `element`: the form with its field. `context()`: the tokens that the model holds; `templates()`: opens them. */
  constructor(session, element, { context, mostBytes, templates, editLast }) {
    this.field = element.querySelector("textarea");
    this.#session = session;
    this.#context = context;
    this.#mostBytes = mostBytes;
    this.field.addEventListener("keydown", (event) => this.#key(event, editLast));
    this.field.addEventListener("input", () => this.#changed());
    this.field.addEventListener("paste", (event) => this.#pasted(event));
    this.#picker.addEventListener("change", () => (this.add(this.#picker.files), (this.#picker.value = "")));
    const choose = pictureButton("attach", "clip", () => this.#picker.click());
    const template = pictureButton("templates", "template", templates);
    element.addEventListener("submit", (event) => (event.preventDefault(), this.#send()));
    element.prepend(this.#files);
    fill(element.querySelector(".row"), choose, template, this.#picker, this.#told, this.#stop, this.#go);
    session.addEventListener("changed", () => this.#stateChanged());
    session.addEventListener("asked", () => coarse.matches || this.field.focus());
  }

  #session;
  #context;
  #conversation = null; // whose draft it is
  #mostBytes;
  #before = 0; // about how many tokens were said before; not counted anew at every letter
  #attached = []; // {name, text, tokens}; text null while it is read
  #files = h("div", { class: "files" });
  #picker = h("input", { type: "file", multiple: true, accept: ACCEPTED, hidden: true });
  #told = h("span", { class: "told soft", role: "status" });
  #stop = pictureButton("stop", "stop", () => this.#session.stop(), { class: "round", hidden: true });
  #go = pictureButton("send", "send", null, { type: "submit", class: "primary round" });

  /** Puts a text at the cursor. */
  insert(text) {
    this.field.focus();
    this.field.setRangeText(text, this.field.selectionStart, this.field.selectionEnd, "end");
    this.#changed();
  }

  async add(files) {
    const faults = [];
    // A list of the browser's empties itself when its field does.
    for (const file of [...files]) {
      const place = { name: file.name, text: null, tokens: 0 };
      this.#attached.push(place);
      this.#changed();
      try {
        place.text = await readFile(file);
        place.tokens = estimate(place.text);
      } catch (fault) {
        this.#attached = this.#attached.filter((one) => one !== place);
        faults.push(fault.message);
      }
      this.#changed();
    }
    if (faults.length) this.#tell(faults.join(" "), true);
  }

  #key(event, editLast) {
    // 229: the Enter that ends a composition, as some browsers tell it.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "ArrowUp" && !this.field.value && editLast()) event.preventDefault();
    if (event.key !== "Enter" || event.shiftKey || (coarse.matches && !event.ctrlKey)) return;
    event.preventDefault();
    this.#send();
  }

  #pasted(event) {
    const { files } = event.clipboardData;
    if (files.length === 0) return;
    event.preventDefault();
    this.add(files);
  }

  #send() {
    if (this.#go.disabled || this.#session.answering) return;
    const content = joined(this.#attached, this.field.value.trim());
    this.#attached = [];
    this.field.value = "";
    this.#changed();
    this.#session.send(content);
  }

  #changed() {
    if (!GROWS) this.#grow();
    keep(this.#session.conversation.id, this.field.value);
    fill(
      this.#files,
      this.#attached.map((file) => this.#chip(file)),
    );
    const words = this.field.value.trim();
    const size = new TextEncoder().encode(joined(this.#attached, words)).length;
    const tokens =
      this.#before + estimateAll([words]) + this.#attached.reduce((sum, file) => sum + file.tokens, 0);
    const limit = this.#context();
    const values = { tokens: number(tokens), limit: number(limit) };
    const fault =
      size > this.#mostBytes
        ? say("too_many_bytes", { limit: bytes(this.#mostBytes), size: bytes(size) })
        : limit && tokens > limit
          ? say("too_long", values)
          : "";
    this.#tell(fault || (limit && tokens > COUNTED_FROM * limit ? say("tokens_of", values) : ""), Boolean(fault));
    const waits = this.#attached.some(({ text }) => text === null);
    this.#go.disabled = Boolean(fault) || waits || !(words || this.#attached.length);
  }

  #grow() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
  }

  #tell(words, bad) {
    if (this.#told.textContent !== words) this.#told.textContent = words;
    this.#told.classList.toggle("bad", bad);
  }

  #stateChanged() {
    const { conversation, answering, path } = this.#session;
    this.#before = estimateAll(path.map(({ content }) => content));
    if (conversation !== this.#conversation) {
      const early = this.#conversation === null ? this.field.value : ""; // written before the page was whole
      this.#conversation = conversation;
      this.#attached = [];
      this.field.value = early || (sessionStorage.getItem(KEPT + (conversation.id ?? "")) ?? "");
      if (early.endsWith("\n") && !coarse.matches) queueMicrotask(() => this.#send());
    }
    this.#stop.hidden = !answering;
    this.#go.hidden = Boolean(answering);
    this.#changed();
  }

  #chip(file) {
    const size =
      file.text === null ? say("reading", { name: "" }) : say("file_tokens", { tokens: number(file.tokens) });
    const remove = () => (this.#attached.splice(this.#attached.indexOf(file), 1), this.#changed());
    const cross = pictureButton("remove_file", "close", remove, {
      "aria-label": say("remove_file", { name: file.name }),
      title: null,
    });
    return h(
      "span",
      { class: "chip" },
      icon("clip"),
      h("span", {}, file.name),
      h("span", { class: "soft" }, size),
      cross,
    );
  }
}

function keep(id, words) {
  if (words) sessionStorage.setItem(KEPT + (id ?? ""), words);
  else sessionStorage.removeItem(KEPT + (id ?? ""));
}
