// Fields of forms, made of plain descriptions. Knows nothing of what they are for.

import { h } from "../lib/dom.js";
import { say } from "./words/frame.js";

/**
 * fields: [{name, label, kind, value, hint, required, choices, min, max, step, empty}]. kind: text, number, list (one a
 * line), choice (choices: [[value, text]]), check, secret, time (Unix seconds). What is left empty is what `empty` says;
 * otherwise null, and a list without entries.
 * {element, values(): {name: value}, complain(name): marks the field, or none}
 */
export function formOf(fields) {
  const made = fields.map((field) => [field, inputOf(field)]);
  return {
    element: h(
      "div",
      { class: "form" },
      made.map(([field, input]) => labelled(field, input)),
    ),
    values: () => Object.fromEntries(made.map(([field, input]) => [field.name, valueOf(field, input)])),
    complain(param) {
      const name = param?.split(/[.[]/)[0];
      for (const [field, input] of made) input.setAttribute("aria-invalid", String(field.name === name));
      made.find(([field]) => field.name === name)?.[1].focus();
    },
  };
}

function labelled(field, input) {
  const hint = [field.kind === "list" ? say("one_a_line") : null, field.hint].filter(Boolean).join(" ");
  const told = hint ? h("span", { class: "hint", id: `${input.id}-hint` }, hint) : null;
  if (told) input.setAttribute("aria-describedby", told.id);
  const isCheck = field.kind === "check";
  const label = isCheck
    ? h("label", { class: "check" }, input, field.label)
    : h("label", { for: input.id }, field.label);
  return h("div", { class: `field ${field.kind}` }, label, isCheck ? null : input, told);
}

function inputOf(field) {
  const { name, kind, value, required, min, step, max } = field;
  const common = { id: `field-${name}`, name, required, autocomplete: "off" };
  if (kind === "choice") {
    const options = field.choices.map(([each, text]) => h("option", { value: each }, text));
    return h("select", { ...common, value: value ?? "" }, options);
  }
  if (kind === "check") return h("input", { ...common, type: "checkbox", checked: value });
  if (kind === "list") return h("textarea", { ...common, rows: 3, value: (value ?? []).join("\n") });
  if (kind === "time") return h("input", { ...common, type: "datetime-local", value: localTime(value) });
  if (kind === "number") return h("input", { ...common, type: "number", min, max, step, value: value ?? "" });
  if (kind === "secret") return h("input", { ...common, type: "password", autocomplete: "new-password" });
  return h("input", { ...common, type: "text", value: value ?? "" });
}

function valueOf(field, input) {
  const text = input.value.trim();
  if (field.kind === "check") return input.checked;
  if (field.kind === "list") {
    const lines = text.split("\n").map((line) => line.trim());
    const given = lines.filter(Boolean);
    return given.length || field.empty === undefined ? given : field.empty;
  }
  if (text === "") return field.empty === undefined ? null : field.empty;
  if (field.kind === "number") return Number(text);
  return field.kind === "time" ? Math.floor(new Date(text).getTime() / 1000) : text;
}

/** As the field wants it: the reader's own time, without a zone. */
function localTime(seconds) {
  if (!seconds) return "";
  const at = new Date(seconds * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
