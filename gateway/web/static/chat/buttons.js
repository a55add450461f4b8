// Buttons that show a picture, and say what they do to whoever hears or points at them.

import { h } from "../lib/dom.js";
import { icon } from "./icons.js";
import { say } from "./words.js";

/** `words`: a key of words.js. `more`: further props. */
export function pictureButton(words, picture, onclick, more = {}) {
  const name = say(words);
  return h(
    "button",
    { type: "button", class: "plain small", "aria-label": name, title: name, onclick, ...more },
    icon(picture),
  );
}
