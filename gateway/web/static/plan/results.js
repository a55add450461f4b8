// A plan as figures, each with its formula. Computes nothing but shares of what it was given.

import { copyButton } from "../lib/clipboard.js";
import { h } from "../lib/dom.js";
import { bytes, decimalBytes, duration, number, percent, rounded } from "../lib/format.js";
import { bar, legend } from "./bars.js";
import { say } from "./words.js";

const GIB = 2 ** 30;

/** The sections of a plan. state: what was asked. experts: how many a layer of the model has; 0: it has none. */
export function results(plan, state, experts) {
  return [
    plan.advice &&
      adviceOf(
        plan.advice,
        plan.rows.some((row) => row.measured_share > 1),
        state,
      ),
    plan.memory && memoryOf(plan.memory, state),
    plan.rows.length > 0 && speedOf(plan.rows, heldOf(plan.memory), state),
    plan.rows.length > 0 && Number(state.gpus) > 1 && parallelOf(plan.rows.at(-1), state),
    experts > 0 && plan.rows.length > 0 && moeOf(plan.rows, experts),
    plan.finish && finishOf(plan.finish),
    plan.rows.length > 0 && promptOf(plan.prefill, state),
    linesOf(plan.lines),
  ];
}

function section(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), children);
}

function formula(...names) {
  return h(
    "p",
    { class: "formula" },
    names.map((name, at) => [at > 0 && " · ", say(`formula_${name}`)]),
  );
}

function tile(value, words, ...more) {
  return h("div", { class: "tile" }, h("p", { class: "value" }, value), h("p", {}, words), more);
}

function adviceOf(
  { max_num_seqs: seats, limited_by: by, machines, wait_s: wait, expected_share: share, per_user_tok_s: each },
  above,
  state,
) {
  const target = number(Number(state.target), Number.isInteger(Number(state.target)) ? 0 : 1);
  const why = say(`${seats ? "seats" : "none"}_${by}`, { target });
  const people = number(Number(state.people));
  const flags = h(
    "p",
    {},
    h("code", {}, `--max-num-seqs ${seats}`),
    " ",
    h("code", {}, `--max-model-len ${state.context}`),
  );
  return section(
    say("advice"),
    h(
      "div",
      { class: "tiles" },
      tile(
        say("people_value", { count: number(seats) }),
        say("seats"),
        h("p", { class: "soft" }, why),
        seats > 0 && flags,
      ),
      machines === null
        ? tile("–", say("machines", { people }), h("p", { class: "soft" }, say("machines_none")))
        : tile(
            say("machines_value", { count: number(machines) }),
            say("machines", { people }),
            ofWhat(state),
            formula("machines"),
          ),
      tile(rounded(each), say("per_user", { batch: number(Math.max(seats, 1)) }), formula("per_user_tok_s")),
      wait > 0 && tile(duration(wait), say("wait"), formula("wait_s")),
    ),
    share !== 1 && h("p", { class: "notice" }, say("expected_share", { share: percent(share) })),
    above && h("p", { class: "notice bad" }, say("above_bound")),
  );
}

function ofWhat({ gpus, hardware }) {
  return hardware && h("p", { class: "soft" }, say("machines_of", { gpus, hardware }));
}

function memoryOf(memory, state) {
  const weights = memory.weights_gib;
  const kv = Math.max(memory.kv_budget_gib, 0);
  // What is used is weights and KV; utilisation is its share of the whole.
  const whole = Math.max((weights + memory.kv_budget_gib) / Number(state.utilisation), weights);
  const rest = Math.max(whole - weights - kv, 0);
  const sizes = { weights: bytes(weights * GIB), kv: bytes(kv * GIB), rest: bytes(rest * GIB) };
  const held = Object.entries(memory.conversations).map(([type, count]) =>
    say("in_type", { type, number: number(count, 1) }),
  );
  const left = memory.kv_budget_gib < 0 ? h("span", { class: "bad" }, say("does_not_fit")) : sizes.kv;
  return section(
    say("memory"),
    bar(
      [
        ["series-1", weights],
        ["series-2", kv],
        ["rest", rest],
      ],
      whole,
      say("memory_bar", sizes),
    ),
    legend([
      ["series-1", say("legend_weights")],
      ["series-2", say("legend_kv")],
      ["rest", say("unused")],
    ]),
    figures([
      [say("weights_gib"), sizes.weights, "weights_gib"],
      [say("kv_token"), bytes(memory.kv_kib_per_token * 1024), "kv_bytes_per_token"],
      [say("kv_budget"), left, "kv_budget_gib"],
      [say("conversations", { context: number(Number(state.context)) }), held.join(" · "), "conversations"],
    ]),
  );
}

function figures(entries) {
  return h(
    "dl",
    { class: "figures" },
    entries.map(([name, value, by]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value), by && h("dd", { class: "formula" }, say(`formula_${by}`))),
    ),
  );
}

/** Conversations that find room, by the type of the KV cache that is planned with. */
function heldOf(memory) {
  return memory === null ? Infinity : Math.floor(Object.values(memory.conversations)[0]);
}

function speedOf(rows, held, state) {
  const shown = columnsOf(rows, held, state);
  const most = Math.max(...rows.map((row) => row.weight_bytes + row.kv_bytes));
  return section(
    say("speed"),
    legend([
      ["series-1", say("legend_weights")],
      ["series-2", say("legend_kv")],
    ]),
    h(
      "div",
      { class: "scrolls", tabindex: 0, role: "region", "aria-label": say("speed_table") },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            shown.map(([title]) => h("th", { class: "number", scope: "col" }, title)),
            h("th", { scope: "col" }, say("bytes")),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map((row) => rowOf(row, shown, most)),
        ),
      ),
    ),
    h("p", { class: "soft" }, say("upper_bound")),
    named(shown.filter(([, , by]) => by)),
  );
}

/** [title, value of a row, its formula], those that this plan has. */
function columnsOf(rows, held, state) {
  const columns = [
    [say("batch"), (row) => number(row.batch)],
    [say("total"), (row) => number(row.total_tok_s), "total_tok_s"],
    [say("each"), (row) => rounded(row.per_user_tok_s), "per_user_tok_s"],
    [say("verdict"), (row) => verdict(row, held)],
    [say("step"), (row) => duration(row.step_seconds), "step_seconds"],
  ];
  if (Number(state.gpus) > 1) columns.push([say("sums"), (row) => duration(row.sum_seconds), "sums"]);
  if (rows[0].experts_read !== null) {
    columns.push([say("experts"), (row) => number(row.experts_read), "experts_read"]);
    columns.push([say("skewed"), (row) => number(row.experts_read_skewed), "experts_read_skewed"]);
  }
  if (rows.some((row) => row.measured_share !== null)) {
    columns.push([
      say("measured_share"),
      (row) => (row.measured_share === null ? "" : percent(row.measured_share)),
      "measured_share",
    ]);
  }
  return columns;
}

function verdict(row, held) {
  if (row.batch > held) return h("span", { class: "warn" }, "– ", say("no_room"));
  return h(
    "span",
    { class: row.meets_target ? "good" : "bad" },
    row.meets_target ? "✓ " : "✗ ",
    say(row.meets_target ? "meets" : "misses"),
  );
}

function rowOf(row, shown, most) {
  const sizes = { weights: decimalBytes(row.weight_bytes), kv: decimalBytes(row.kv_bytes) };
  const cells = shown.map(([, value], at) =>
    at === 0 ? h("th", { class: "number", scope: "row" }, value(row)) : h("td", { class: "number" }, value(row)),
  );
  const parts = [
    ["series-1", row.weight_bytes],
    ["series-2", row.kv_bytes],
  ];
  return h(
    "tr",
    {},
    cells,
    h(
      "td",
      { class: "bytes" },
      bar(parts, most, say("bytes_bar", sizes)),
      h("span", { class: "soft" }, say("bytes_bar", sizes)),
    ),
  );
}

function named(columns) {
  return h(
    "dl",
    { class: "formulas" },
    columns.map(([title, , by]) => [h("dt", {}, title), h("dd", { class: "formula" }, say(`formula_${by}`))]),
  );
}

function parallelOf(row, { gpus }) {
  const share = percent(row.sum_seconds / row.step_seconds);
  const said = { gpus, time: duration(row.sum_seconds), batch: number(row.batch), share };
  return section(say("parallel"), h("p", {}, say("parallel_words", said)), formula("sums"));
}

function moeOf(rows, experts) {
  const [one, some] = [rows[0], rows.find((row) => row.batch === 16) ?? rows.at(-1)];
  const said = {
    number: number(experts),
    one: number(one.experts_read),
    some: number(some.experts_read),
    batch: number(some.batch),
    skewed: number(some.experts_read_skewed),
  };
  return section(
    say("moe"),
    h("p", {}, say("moe_words", said)),
    formula("experts_read"),
    formula("experts_read_skewed"),
  );
}

function finishOf(finish) {
  const lines = [
    ["sequential", finish.sequential_s, "rest-dark"],
    ["batched", finish.batched_s, "series-1"],
  ];
  return section(
    say("finish", { people: number(finish.people) }),
    lines.map(([name, seconds, colour]) =>
      h(
        "div",
        { class: "race" },
        h("p", {}, say(name), h("strong", {}, duration(seconds))),
        bar([[colour, seconds]], Math.max(finish.sequential_s, finish.batched_s), `${say(name)}: ${duration(seconds)}`),
        formula(`${name}_s`),
      ),
    ),
    h("p", {}, h("strong", {}, say("speedup", { times: rounded(finish.speedup) }))),
  );
}

function promptOf(prefill, state) {
  if (prefill === null) return section(say("prompt"), h("p", { class: "soft" }, say("no_prefill")));
  const shared = Number(state.shared_prefix) > 0;
  const people = number(Number(state.people));
  return section(
    say("prompt"),
    figures([
      [say("prefill", { tokens: number(prefill.prompt_tokens) }), duration(prefill.seconds), "prefill_seconds"],
      ...(shared
        ? [[say("prefill_shared", { tokens: number(Number(state.shared_prefix)) }), duration(prefill.shared_s)]]
        : []),
      [say("last_prefill", { people }), duration(prefill.last_s), "last_s"],
      ...(shared ? [[say("last_shared"), duration(prefill.last_shared_s)]] : []),
    ]),
  );
}

function linesOf(lines) {
  if (lines.length === 0) return section(say("lines"), h("p", { class: "soft" }, say("no_lines")));
  return section(say("lines"), lines.map(lineOf));
}

function lineOf({ engine, command, note }) {
  const code = h("code", {}, command);
  return h(
    "div",
    { class: "line" },
    h(
      "div",
      { class: "line-head" },
      h("h3", {}, engine),
      copyButton(() => command, code, say("command_of", { engine })),
    ),
    h("pre", { tabindex: 0, role: "region", "aria-label": say("command_of", { engine }) }, code),
    note && h("p", { class: "soft" }, say(`note_${note}`)),
  );
}
