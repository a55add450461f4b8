// Keys for those who leave the mouse alone. All of them with Ctrl, Alt or Escape: a single letter is for writing.

import { h } from "../lib/dom.js";
import { dialog } from "./dialogs.js";
import { say } from "./words.js";

/** `acts`: {new, search, field, copy, stop, list} by what the key is for. */
export function listenToKeys(acts) {
  const keys = {
    "ctrl+shift+o": acts.new,
    "ctrl+k": acts.search,
    "ctrl+shift+l": acts.field,
    "ctrl+shift+y": acts.copy,
    "ctrl+shift+s": acts.list,
    "ctrl+/": showShortcuts,
    escape: acts.stop,
  };
  document.addEventListener("keydown", (event) => {
    // A dialog and a menu that are open have their own Escape.
    if (event.isComposing || event.defaultPrevented || document.querySelector("dialog[open], details.menu[open]"))
      return;
    const go = keys[named(event)];
    if (!go) return;
    event.preventDefault();
    go();
  });
}

export function showShortcuts() {
  const control = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";
  const list = [
    [["Enter"], "key_send"],
    [["Shift", "Enter"], "key_line"],
    [["↑"], "key_edit"],
    [["Esc"], "key_stop"],
    [[control, "Shift", "O"], "key_new"],
    [[control, "K"], "key_search"],
    [[control, "Shift", "L"], "key_field"],
    [[control, "Shift", "Y"], "key_copy"],
    [[control, "Shift", "S"], "key_list"],
    [[control, "/"], "key_help"],
  ];
  const rows = list.map(([keys, words]) => [
    h(
      "dt",
      {},
      keys.map((key) => h("kbd", {}, key)),
    ),
    h("dd", {}, say(words)),
  ]);
  return dialog(say("shortcuts"), h("dl", { class: "shortcuts" }, rows));
}

function named({ key, ctrlKey, metaKey, shiftKey }) {
  return `${ctrlKey || metaKey ? "ctrl+" : ""}${shiftKey && key !== "/" ? "shift+" : ""}${key.toLowerCase()}`;
}
