// The last block of an answer, made anew while it grows. One that may be long by itself (code, a list, a table) keeps
// what of it is finished: of code its text, of a list its items, of a table its rows.

import { h } from "../lib/dom.js";
import { rendered } from "./markdown.js";

const OPEN_FENCE = /^ {0,3}(?:```|~~~)/;

export class Tail {
  element = h("div", { class: "tail" });
  #code = null; // the text node that an open block of code grows in
  #parts = null; // {kind, place, raws}: the parts that are shown in `place`

  /** `tokens`: the open block, and the empty lines behind it. */
  show(tokens) {
    const [token] = tokens;
    if (token?.type === "code" && OPEN_FENCE.test(token.raw)) this.#showCode(token);
    else if (token?.type === "list" || token?.type === "table") this.#showParts(token);
    else this.#showAll(tokens);
  }

  #showAll(tokens) {
    this.#code = this.#parts = null;
    this.element.replaceChildren(rendered(tokens, false));
  }

  #showCode(token) {
    if (this.#code && token.text.startsWith(this.#code.data)) {
      this.#code.appendData(token.text.slice(this.#code.data.length));
      return;
    }
    this.#showAll([token]);
    const code = this.element.querySelector("code");
    code.textContent = token.text;
    this.#code = code.firstChild;
  }

  #showParts(token) {
    const { kind, raws, alone } = partsOf(token);
    if (this.#parts?.kind !== kind) {
      this.#showAll([token]);
      this.#parts = { kind, raws, place: placeOf(this.element) };
      return;
    }
    const { place } = this.#parts;
    const kept = raws.findIndex((raw, at) => raw !== this.#parts.raws[at]);
    if (kept < 0 && raws.length === this.#parts.raws.length) return;
    const first = kept < 0 ? raws.length : kept;
    while (place.children.length > first) place.lastElementChild.remove();
    for (let at = first; at < raws.length; at++) place.append(...placeOf(rendered([alone(at)], false)).children);
    this.#parts.raws = raws;
  }
}

// `kind`: what all parts look alike by. `alone(at)`: the same block with this part only.
function partsOf(token) {
  if (token.type === "list") {
    const raws = token.items.map(({ raw }) => raw.trimEnd());
    return {
      kind: `${token.ordered} ${token.start} ${token.loose}`,
      raws,
      alone: (at) => ({ ...token, items: [token.items[at]] }),
    };
  }
  const raws = token.rows.map((cells) => cells.map(({ text }) => text).join("|"));
  return {
    kind: JSON.stringify([token.header.map(({ text }) => text), token.align]),
    raws,
    alone: (at) => ({ ...token, rows: [token.rows[at]] }),
  };
}

// A table without rows has no body yet.
function placeOf(fragment) {
  const table = fragment.querySelector("table");
  if (!table) return fragment.querySelector("ul, ol");
  if (!table.tBodies.length) table.append(document.createElement("tbody"));
  return table.tBodies[0];
}
