// With this policy on past days, who would have been refused? Asks, and changes nothing.

import { askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { shown } from "./differences.js";
import { fieldName } from "./policy_fields.js";
import { problem } from "./problem.js";
import { ownerLink, table } from "./table.js";
import { say } from "./words/policies.js";

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
      fill(answer, found(await askJson("/admin/v1/policies/what-if", { json, signal: here.signal })));
    } catch (fault) {
      if (fault.name !== "AbortError") fill(answer, problem(fault));
    }
  }
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
