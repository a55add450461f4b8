// Code in an answer: its language, a button that copies it, and its colours, for which highlight.js comes with the
// first block of code.

import { h } from "../lib/dom.js";
import { cleaned } from "./clean.js";
import { copyButton } from "./copying.js";

const HIGHLIGHT = new URL("../vendor/highlight/highlight.min.js", import.meta.url);
const LONGEST = 100_000; // coloured; longer ones stay plain, and quick

let coming = null;

export function codeIn(fragment, settled) {
  for (const code of fragment.querySelectorAll("pre > code")) {
    const language = /language-(\S+)/.exec(code.className)?.[1] ?? "";
    framed(code, language);
    if (settled && language && code.textContent.length <= LONGEST) colour(code, language);
  }
}

function framed(code, language) {
  const block = code.parentElement;
  const frame = h("div", { class: "code" });
  block.replaceWith(frame);
  block.tabIndex = 0; // a keyboard scrolls it too
  frame.append(
    h(
      "div",
      { class: "code-head" },
      h("span", {}, language),
      copyButton(() => code.textContent),
    ),
    block,
  );
}

async function colour(code, language) {
  coming ??= import(HIGHLIGHT).then((module) => module.default);
  const highlight = await coming.catch(() => null);
  if (!highlight?.getLanguage(language)) return;
  code.replaceChildren(cleaned(highlight.highlight(code.textContent, { language, ignoreIllegals: true }).value));
}
