// Copying to the clipboard, and the button that says that it was done.

import { fill } from "../lib/dom.js";
import { announce } from "./announce.js";
import { pictureButton } from "./buttons.js";
import { icon } from "./icons.js";
import { say } from "./words.js";

const SHOWN_FOR = 1500; // ms

/** `text`: a function that gives what to copy when it is asked for. */
export function copyButton(text) {
  const button = pictureButton("copy", "copy", async () => {
    await copied(text());
    fill(button, icon("done"));
    announce(say("copied"));
    setTimeout(() => fill(button, icon("copy")), SHOWN_FOR);
  });
  return button;
}

export async function copied(text) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copiedBySelection(text);
}

// Browsers keep the clipboard's own interface for pages behind TLS; a door in a closed network may be without.
function copiedBySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
