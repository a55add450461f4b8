// A button that copies. Over plain HTTP browsers offer no clipboard to scripts; there the text is selected instead.

import { fill, h } from "./dom.js";
import { words } from "./words.js";

const say = words({
  copy: { en: "Copy", ja: "コピー" },
  copied: { en: "Copied", ja: "コピーしました" },
  press: { en: "Press Ctrl+C", ja: "Ctrl+C でコピー" },
});
const SHOWN_MS = 2000;

/** text(): what is copied. source: the element in which it stands. label: what it is, for those who hear it. */
export function copyButton(text, source, label) {
  const word = h("span", { "aria-live": "polite" }, say("copy"));
  const button = h(
    "button",
    { type: "button", class: "small copy" },
    word,
    h("span", { class: "unseen" }, ` ${label}`),
  );
  button.addEventListener("click", async () => {
    fill(word, say((await copied(text(), source)) ? "copied" : "press"));
    setTimeout(() => fill(word, say("copy")), SHOWN_MS);
  });
  return button;
}

async function copied(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return false;
  }
}
