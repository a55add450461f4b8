// What is asked: the same names and units in the address, in the API's query and here, so that a plan can be shared.

/**
 * name: as the API has it. unit: what one of the field's units is in the API's. own: asked only where figures stand in
 * the place of the model or the hardware.
 */
export const FIELDS = [
  { name: "model", kind: "choice", fallback: "qwen3-8b" },
  { name: "params", kind: "number", unit: 1e9, own: "model", min: 0.001, step: "any" },
  { name: "active_weight_bytes", kind: "number", unit: 1e9, own: "model", min: 0.001, step: "any" },
  { name: "layers", kind: "number", own: "model", min: 1, max: 10000 },
  { name: "kv_heads", kind: "number", own: "model", min: 1, max: 10000 },
  { name: "head_dim", kind: "number", own: "model", min: 1, max: 10000 },
  { name: "hardware", kind: "choice", fallback: "h100" },
  { name: "vram_gib", kind: "number", own: "hardware", min: 0.01, step: "any" },
  { name: "bandwidth", kind: "number", unit: 1e9, own: "hardware", min: 0.001, step: "any" },
  { name: "gpus", kind: "number", fallback: "1", min: 1, max: 64 },
  { name: "weights", kind: "choice", fallback: "bf16" },
  { name: "kv_cache_dtype", kind: "choice", fallback: "bf16" },
  { name: "context", kind: "number", fallback: "4096", min: 1, max: 10000000 },
  { name: "output_tokens", kind: "number", fallback: "500", min: 1, max: 10000000 },
  { name: "shared_prefix", kind: "number", fallback: "0", min: 0, max: 10000000 },
  { name: "people", kind: "number", fallback: "50", min: 1, max: 1000000 },
  { name: "target", kind: "number", fallback: "20", min: 0.1, max: 10000, step: "any" },
  { name: "utilisation", kind: "number", fallback: "0.92", min: 0.01, max: 1, step: 0.01 },
  { name: "measured", kind: "text", fallback: "" },
];

export const OWN = ""; // what stands for no model and no hardware of the list

/** From an address; what it does not say is as it mostly is, but that own figures stand for no name of the list. */
export function readState(search) {
  const said = new URLSearchParams(search);
  return Object.fromEntries(
    FIELDS.map(({ name, kind, fallback = "" }) => {
      const without = FIELDS.some((field) => field.own === name && said.has(field.name)) ? OWN : fallback;
      return [name, (said.get(name) ?? without).slice(0, kind === "text" ? 400 : 64)];
    }),
  );
}

/** The query that asks for it: without what is empty, and without own figures where a name stands. */
export function queryOf(state) {
  const query = new URLSearchParams();
  for (const { name, own } of FIELDS) {
    if (state[name] !== "" && !(own && state[own] !== OWN)) query.set(name, state[name]);
  }
  return query.toString();
}
