// A policy's fields, made of the schema that the admin API gives: a limit that is new there is a field here.

import { FIELDS, fieldWords, say } from "./words/policies.js";

const HINTS = { applies_to: "applies_hint", models: "models_hint", allowed_models: "allowed_hint" };
const ABOUT = new Set(["id", "object", "created", "description", "applies_to", "models", "each", "weights", "shadow"]);

/** schema(name): of the API's document. policy: what stands in the fields; null: the defaults. Those within another
 * object are called `outer.inner`. */
export function fieldsOf(schema, policy) {
  return Object.entries(schema("PolicyPut").properties).flatMap(([name, described]) => {
    const value = policy ? policy[name] : described.default;
    const inner = described.$ref && schema(described.$ref.split("/").at(-1));
    if (!inner) return [field(name, described, value)];
    return Object.entries(inner.properties).map(([part, one]) =>
      field(`${name}.${part}`, one, value?.[part] ?? one.default),
    );
  });
}

/** What the form gave, as PUT takes it. */
export function policyOf(values) {
  const policy = {};
  for (const [name, value] of Object.entries(values)) {
    const [outer, inner] = name.split(".");
    if (inner) (policy[outer] ??= {})[inner] = value;
    else policy[outer] = value;
  }
  return policy;
}

/** [[name in words, value], ...] of the limits that are set. */
export function limitsOf(policy) {
  return Object.entries(policy)
    .filter(([name, value]) => !ABOUT.has(name) && value !== null)
    .map(([name, value]) => [fieldName(name), value]);
}

export function fieldName(name) {
  return name in FIELDS ? fieldWords(name) : name;
}

function field(name, described, value) {
  const types = (described.anyOf ?? [described]).map(({ type }) => type);
  const common = { name, label: fieldName(name), value, hint: HINTS[name] && say(HINTS[name]) };
  if (types.includes("boolean")) return { ...common, kind: "check" };
  if (types.includes("array")) return { ...common, kind: "list", empty: types.includes("null") ? null : undefined };
  if (types.includes("integer")) return { ...common, kind: "number", min: 0, step: 1 };
  if (types.includes("number")) return { ...common, kind: "number", min: 0, step: "any", required: true };
  return { ...common, kind: "text", empty: types.includes("null") ? null : "" };
}
