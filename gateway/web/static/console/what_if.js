// With this policy on past days, who would have been refused? Asks, and changes nothing.

import { ask, askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { download } from "../lib/download.js";
import { number } from "../lib/format.js";
import { shown } from "./differences.js";
import { fieldName } from "./policy_fields.js";
import { problem } from "./problem.js";
import { ownerLink, table } from "./table.js";
import { say } from "./words/policies.js";

const PATH = "/admin/v1/policies/what-if";
const MOST_ROWS = 10_000;

/** given(): {name, policy}, as they stand now; name: null as long as it has none. */
export function whatIf(here, given) {
  const answer = h("div", { "aria-live": "polite" });
  const day = (name) => h("label", {}, say(`what_if_${name}`), h("input", { type: "date", name }));
  const form = h(
    "form",
    { class: "filters", onsubmit: asked },
    day("from"),
    day("to"),
    h("button", {}, say("what_if")),
  );
  return h(
    "section",
    { class: "card" },
    h("h2", {}, say("what_if_title")),
    h("p", {}, say("what_if_words")),
    form,
    answer,
  );

  async function asked(event) {
    event.preventDefault();
    const days = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    try {
      const { name, policy } = given();
      const json = { policy, ...(name && { name }), ...days };
      const shown = await askJson(PATH, { json, signal: here.signal });
      fill(answer, found(shown), shown.data.length > 0 && sheet({ ...json, limit: MOST_ROWS }));
    } catch (fault) {
      if (fault.name !== "AbortError") fill(answer, problem(fault));
    }
  }
}

/** The same for a spreadsheet, with as many rows as there may be. */
function sheet(json) {
  const faults = h("div", {});
  const save = async () => {
    try {
      const answer = await ask(PATH, { json, headers: { accept: "text/csv" } });
      download(`what-if-${json.name ?? "policy"}.csv`, await answer.blob(), "text/csv");
      fill(faults);
    } catch (fault) {
      fill(faults, problem(fault));
    }
  };
  return h("div", {}, h("button", { type: "button", onclick: save }, say("csv")), faults);
}

function found({ data, subjects, has_more: more, not_known: unknown, notes, ...days }) {
  const count = `${number(subjects)}${more ? "+" : ""}`;
  return [
    h("p", {}, say(data.length ? "what_if_some" : "what_if_none", { count, ...days })),
    data.length > 0 && table(say("what_if_title"), columns, data).element,
    h(
      "ul",
      { class: "soft" },
      unknown.map(({ limit, reason }) => h("li", {}, say("limits_words", { name: fieldName(limit), value: reason }))),
      notes.map((note) => h("li", {}, note)),
    ),
  ];
}

const columns = [
  { title: say("what_if_day"), cell: (row) => row.day },
  { title: say("who"), cell: ({ whom, name }) => ownerLink(whom, name) },
  { title: say("limit"), cell: (row) => fieldName(row.limit) },
  { title: say("value"), cell: (row) => amount(row.value), number: true },
  { title: say("what_if_used"), cell: (row) => amount(row.used), number: true },
  { title: say("what_if_over"), cell: (row) => amount(row.over), number: true },
  {
    title: say("what_if_refused"),
    cell: ({ refused, requests }) => say("what_if_of", { refused: number(refused), requests: number(requests) }),
    number: true,
  },
];

function amount(value) {
  return typeof value === "number" ? number(value) : shown(value);
}
