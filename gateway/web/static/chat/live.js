// An answer on the page while it grows. Blocks that are finished are kept as they are; only the last is made anew, once
// a frame at most and less often where it takes long, so that a long answer costs no more a token than a short one.

import { blocks, rendered } from "./markdown.js";
import { Tail } from "./tail.js";

const PAUSES = 4; // this many times as long as a rendering took nothing is rendered, and the page is free
const LONG = 30; // blocks: more are about two screens
// A link that is told further down: blocks before it may have to be made anew.
const REFERENCE = /^ {0,3}\[[^\]\n]+\]:/m;

export class LiveMarkdown {
  #element;
  #tail = new Tail();
  #settled = 0; // so much of the text has become finished blocks
  #free = 0;
  #frame = 0;
  #text = "";

  constructor(element) {
    this.#element = element;
    element.replaceChildren(this.#tail.element);
  }

  /** The whole text so far: shown at the next frame that is free. */
  update(text) {
    this.#text = text;
    this.#frame ||= requestAnimationFrame((now) => this.#next(now));
  }

  /** The whole text, and nothing follows. */
  finish(text) {
    cancelAnimationFrame(this.#frame);
    if (!text.startsWith(this.#text.slice(0, this.#settled)) || REFERENCE.test(text)) this.#again();
    const rest = blocks(text.slice(this.#settled));
    this.#tail.element.replaceWith(rendered(rest));
    this.#measure();
  }

  #again() {
    this.#settled = 0;
    this.#element.replaceChildren(this.#tail.element);
  }

  #measure() {
    this.#element.classList.toggle("long", this.#element.childElementCount > LONG);
  }

  #next(now) {
    this.#frame = 0;
    if (now < this.#free) {
      this.#frame = requestAnimationFrame((later) => this.#next(later));
      return;
    }
    const began = performance.now();
    this.#render();
    const ended = performance.now();
    this.#free = ended + PAUSES * (ended - began);
  }

  #render() {
    const rest = this.#text.slice(this.#settled);
    const open = blocks(rest);
    // A list goes on behind an empty line: what stands before the last block that is more than that is finished.
    const last = open.findLastIndex((token) => token.type !== "space");
    // The lexer rewrites some texts (line ends); where a block ends in ours is then not known before the end.
    const finished = length(open) === rest.length ? open.splice(0, Math.max(last, 0)) : [];
    if (finished.length) {
      this.#tail.element.before(rendered(finished));
      this.#settled += length(finished);
      this.#measure();
    }
    this.#tail.show(open);
  }
}

function length(tokens) {
  return tokens.reduce((sum, token) => sum + token.raw.length, 0);
}
