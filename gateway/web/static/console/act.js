// Every change: asked once in words, done, told, and taken back where an inverse exists. Knows no page.

import { fill, h } from "../lib/dom.js";
import { formOf } from "./fields.js";
import { problem } from "./problem.js";
import { say } from "./words/frame.js";

export const resultLine = h("div", { class: "result", role: "status", hidden: true });

/**
 * title, says (text or nodes): what will be done. fields: what is asked for (fields.js). run(values): does it.
 * done(answer): the sentence of what was done. undo(answer): null, or what takes it back when it is called.
 * then(answer): what the page does afterwards, also when it was undone. Resolves to the answer; null: it was left.
 */
export function act({ title, says, verb, danger = false, fields = [], run, done, undo, then }) {
  return new Promise((resolve) => {
    const form = formOf(fields);
    const faults = h("div", {});
    const go = h("button", { class: danger ? "danger" : "primary" }, verb ?? title);
    const leave = h("button", { type: "button", onclick: () => dialog.close() }, say("cancel"));
    const asked = h(
      "form",
      { onsubmit: submitted },
      h("h2", { id: "act-title" }, title),
      says ? h("div", { id: "act-says" }, typeof says === "string" ? h("p", {}, says) : says) : null,
      form.element,
      faults,
      h("div", { class: "actions" }, leave, go),
    );
    const dialog = h("dialog", { "aria-labelledby": "act-title", "aria-describedby": says ? "act-says" : null }, asked);
    let answer = null;
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();

    async function submitted(event) {
      event.preventDefault();
      go.disabled = true;
      fill(faults);
      form.complain(null);
      try {
        answer = (await run(form.values())) ?? {};
      } catch (fault) {
        form.complain(fault.param);
        fill(faults, problem(fault));
        return;
      } finally {
        go.disabled = false;
      }
      dialog.close();
      showResult(done(answer), undo?.(answer), then);
      then?.(answer);
    }
  });
}

export function clearResult() {
  resultLine.hidden = true;
  fill(resultLine);
}

function showResult(text, back, then) {
  const undo = back && h("button", { type: "button", class: "small" }, say("undo"));
  undo?.addEventListener("click", async () => {
    undo.disabled = true;
    try {
      await back();
      showResult(say("undone", { what: text }), null);
      then?.(null);
    } catch (fault) {
      fill(resultLine, problem(fault), closer());
    }
  });
  resultLine.hidden = false;
  fill(resultLine, h("p", {}, text), undo, closer());
}

function closer() {
  return h("button", { type: "button", class: "small plain", onclick: clearResult }, say("close"));
}
