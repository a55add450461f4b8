// Which model answers: what each is good for and how much it holds. Radio buttons in a sheet, as a keyboard expects.

import { fill, h } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { icon } from "./icons.js";
import { say } from "./words.js";

const KEPT = "sekisho-chat-model"; // the last choice, for new conversations of this browser

/** The model of a new conversation. */
export function usualModel(models) {
  const last = localStorage.getItem(KEPT);
  return models.some(({ id }) => id === last) ? last : (models[0]?.id ?? "");
}

export function modelPicker(session, models) {
  const name = h("span", {});
  const shown = h(
    "details",
    { class: "menu models" },
    h("summary", { "aria-label": say("model") }, name, icon("open")),
    h("div", { class: "sheet" }),
  );
  const choose = (id) => {
    localStorage.setItem(KEPT, id);
    session.configure({ model: id });
  };
  const show = () => {
    const { model } = session.conversation;
    name.textContent = model || say("model");
    shown.firstChild.setAttribute("aria-label", `${say("model")}: ${model}`);
    if (!shown.contains(document.activeElement))
      fill(
        shown.lastChild,
        models.map((one) => choice(one, one.id === model, choose)),
      );
  };
  session.addEventListener("changed", show);
  shown.addEventListener("focusout", (event) => shown.contains(event.relatedTarget) || (shown.open = false));
  shown.addEventListener("toggle", () => shown.open && show());
  shown.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" && event.key !== "Enter") return;
    if (event.target === shown.firstChild && event.key === "Enter") return;
    shown.open = false;
    shown.firstChild.focus();
  });
  return shown;
}

function choice({ id, description, context }, checked, choose) {
  const facts = [description, context ? say("context", { tokens: number(context) }) : ""].filter(Boolean);
  return h(
    "label",
    { class: "model" },
    h("input", { type: "radio", name: "model", checked, onchange: () => choose(id) }),
    h(
      "span",
      {},
      h("strong", {}, id),
      facts.map((fact) => h("span", { class: "soft" }, fact)),
    ),
  );
}
