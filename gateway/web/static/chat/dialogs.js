// Dialogs: the browser's own, which keep the focus inside and give it back.

import { fill, h } from "../lib/dom.js";
import { pictureButton } from "./buttons.js";
import { say } from "./words.js";

/**
 * Shows a dialog until it is closed. `body` and `actions` may be functions that are given `close`.
 * Resolves to what `close` was called with; undefined where it was left by Escape or its cross.
 */
export function dialog(title, body, actions = []) {
  const shown = h("dialog", { class: "chat-dialog", "aria-label": title });
  return new Promise((done) => {
    let result;
    const close = (value) => {
      result = value;
      shown.close();
    };
    const cross = pictureButton("close", "close", () => close());
    const made = (part) => (typeof part === "function" ? part(close) : part);
    fill(shown, h("header", {}, h("h2", {}, title), cross), made(body), h("div", { class: "actions" }, made(actions)));
    shown.addEventListener("close", () => {
      shown.remove();
      done(result);
    });
    document.body.append(shown);
    shown.showModal();
  });
}

/** Whether it is to be done. */
export async function confirmed(question, detail, action) {
  const answer = await dialog(question, h("p", {}, detail), (close) => [
    h("button", { type: "button", onclick: () => close(false) }, say("cancel")),
    h("button", { type: "button", class: "danger", onclick: () => close(true) }, action),
  ]);
  return answer === true;
}

/** A form with these fields ([label, field]); what `read` makes of it when it is sent, undefined when it is left. */
export function form(title, fields, read) {
  const id = "chat-form";
  return dialog(
    title,
    (close) =>
      h(
        "form",
        { id, method: "dialog", onsubmit: (event) => (event.preventDefault(), close(read())) },
        fields.map(([label, field]) => h("label", {}, label, field)),
      ),
    (close) => [
      h("button", { type: "button", onclick: () => close() }, say("cancel")),
      h("button", { class: "primary", form: id }, say("save")),
    ],
  );
}
