// The small door: instructions to the model and how it draws its words, for the conversation that is open.

import { h } from "../lib/dom.js";
import { form } from "./dialogs.js";
import { say } from "./words.js";

const PARAMETERS = {
  temperature: { min: 0, max: 2, step: 0.05 },
  top_p: { min: 0, max: 1, step: 0.01 },
  max_tokens: { min: 1, max: 1_000_000, step: 1 },
};

export async function editOptions(session) {
  const { system, parameters } = session.conversation;
  const words = h("textarea", { value: system, rows: 5, placeholder: say("system_hint") });
  const fields = Object.entries(PARAMETERS).map(([name, bounds]) => {
    const value = parameters[name] ?? "";
    return [name, h("input", { type: "number", ...bounds, value, placeholder: say("as_usual") })];
  });
  const wanted = await form(
    say("options"),
    [[say("system"), words], ...fields.map(([name, field]) => [say(name), field])],
    () => ({ system: words.value.trim(), parameters: given(parameters, fields) }),
  );
  if (wanted) await session.configure(wanted);
}

// An empty field leaves the choice to the model; what is not asked here stays as it was.
function given(before, fields) {
  const after = { ...before };
  for (const [name, field] of fields) {
    if (field.value === "") delete after[name];
    else after[name] = field.valueAsNumber;
  }
  return after;
}
