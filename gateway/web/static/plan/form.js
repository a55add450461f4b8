// What may be asked, as a form. Tells of every change; knows nothing of plans.

import { fill, h } from "../lib/dom.js";
import { FIELDS, OWN } from "./state.js";
import { say } from "./words.js";

const GROUPS = [
  [
    "group_model",
    ["model", "params", "active_weight_bytes", "layers", "kv_heads", "head_dim", "weights", "kv_cache_dtype"],
  ],
  ["group_hardware", ["hardware", "vram_gib", "bandwidth", "gpus", "utilisation"]],
  ["group_load", ["people", "target", "context", "output_tokens", "shared_prefix"]],
  ["group_measured", ["measured"]],
];

/** {element, set(name, value), complain(name, text)}: a form of the options that the API named; change(state) at each. */
export function planForm(options, state, change) {
  const fields = new Map(FIELDS.map((field) => [field.name, fieldOf(field, options, state, changed)]));
  const element = h(
    "form",
    { class: "card", onsubmit: (event) => event.preventDefault(), novalidate: true },
    GROUPS.map(([title, names]) =>
      h(
        "fieldset",
        {},
        h("legend", {}, say(title)),
        h(
          "div",
          { class: "fields" },
          names.map((name) => fields.get(name).element),
        ),
      ),
    ),
  );
  showOwn();

  function changed(name, value) {
    state[name] = value;
    showOwn();
    change(state);
  }

  function showOwn() {
    for (const { name, own } of FIELDS) if (own) fields.get(name).element.hidden = state[own] !== OWN;
    for (const { name } of FIELDS) fields.get(name).hint(hintOf(name, options, state));
  }

  return {
    element,
    set(name, value) {
      fields.get(name).input.value = value;
      changed(name, value);
    },
    complain(name, text) {
      for (const [each, field] of fields) field.complain(each === name ? text : "");
      return fields.has(name);
    },
  };
}

function fieldOf(field, options, state, changed) {
  const { name, unit = 1 } = field;
  const listed = choicesOf(name, options);
  const hint = h("span", { class: "hint", id: `${name}-hint` });
  const fault = h("span", { class: "bad", id: `${name}-fault` });
  const input = listed
    ? h(
        "select",
        { value: state[name] },
        listed.map(([value, text]) => h("option", { value }, text)),
      )
    : h("input", {
        type: field.kind,
        inputmode: field.kind === "number" ? "decimal" : null,
        min: field.min,
        max: field.max,
        step: field.step,
        value: state[name] === "" || field.kind === "text" ? state[name] : String(Number(state[name]) / unit),
        autocomplete: "off",
        spellcheck: false,
      });
  input.id = name;
  input.setAttribute("aria-describedby", `${hint.id} ${fault.id}`);
  input.addEventListener("input", () => {
    const value = input.value.trim();
    changed(name, value === "" || unit === 1 ? value : String(Number(value) * unit));
  });
  return {
    input,
    element: h("div", { class: "field" }, h("label", { for: name }, say(name)), input, hint, fault),
    hint: (text) => fill(hint, text),
    complain(text) {
      fill(fault, text);
      input.setAttribute("aria-invalid", String(text !== ""));
    },
  };
}

function choicesOf(name, options) {
  const own = [OWN, say("own_figures")];
  if (name === "model") return [...options.models.map((one) => [one.name, one.name]), own];
  if (name === "hardware") return [...options.hardware.map((one) => [one.name, one.name]), own];
  if (name === "weights") return options.weights.map((one) => [one, one]);
  if (name === "kv_cache_dtype") return options.kv_cache_dtypes.map((one) => [one, one]);
  return null;
}

/** Where the figures of what is chosen come from. */
function hintOf(name, options, state) {
  if (name === "model") {
    const model = options.models.find((one) => one.name === state.model);
    if (!model) return say("model_own");
    const { num_layers, num_kv_heads, head_dim, num_experts, experts_per_token } = model.shape;
    const experts = num_experts ? say("model_experts", { number: num_experts, each: experts_per_token }) : "";
    return say("model_source", { hub: model.hub, layers: num_layers, heads: num_kv_heads, dim: head_dim }) + experts;
  }
  if (name === "hardware") {
    const found = options.hardware.find((one) => one.name === state.hardware);
    if (!found) return say("hardware_own");
    return say("hardware_source", {
      memory: found.memory_gib,
      speed: Math.round(found.bandwidth / 1e9),
      source: found.source,
    });
  }
  if (name === "weights" && state.weights === "int4") return say("weights_int4");
  return name === "measured" ? say("measured_hint") : "";
}
