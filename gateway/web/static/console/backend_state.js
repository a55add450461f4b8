// How one engine is, as columns of a table: the overview and the page of backends show the same.

import { h } from "../lib/dom.js";
import { number, percent, rounded } from "../lib/format.js";
import { gauge } from "./charts.js";
import { say as common } from "./words/frame.js";
import { say } from "./words/live.js";

const GOOD = new Set(["healthy", "busy"]);

/** lately: what the activity tells of engines. */
export function backendColumns(lately) {
  const of = new Map(lately.map((one) => [one.name, one]));
  return [
    { title: say("backend"), cell: (row) => row.name },
    { title: common("state"), cell: stateOf },
    { title: common("model_list"), cell: (row) => row.models.join(", ") },
    { title: say("load"), cell: loadOf },
    { title: say("waiting"), cell: (row) => (row.waiting === null ? null : number(row.waiting)), number: true },
    { title: say("kv"), cell: kvOf },
    {
      title: say("whole_short"),
      cell: ({ name }) => say("speed_value", { count: rounded(of.get(name)?.completion_tokens_per_second ?? 0) }),
      number: true,
    },
    { title: say("preemptions"), cell: ({ name }) => of.get(name)?.preemptions, number: true },
  ];
}

function stateOf({ state, why, stale }) {
  const good = GOOD.has(state);
  return [
    h("span", { class: good ? "good" : "bad" }, good ? "● " : "▲ ", say(`state_${state}`)),
    [why, stale].filter(Boolean).map((text) => h("span", { class: "soft reason" }, text)),
  ];
}

function loadOf({ running, held, capacity }) {
  const busy = running ?? held;
  const words = say("load_of", { running: number(busy), capacity: number(capacity) });
  return [words, gauge(capacity ? busy / capacity : 0, words)];
}

function kvOf({ kv_use: use }) {
  if (use === null) return null;
  return [percent(use), gauge(use, say("kv_value", { percent: percent(use) }))];
}
