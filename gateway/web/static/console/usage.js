// What was used and what it cost, by user, service account, group, model, key or day.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { number, percent } from "../lib/format.js";
import { columns as columnChart, gauge } from "./charts.js";
import { choose, filter, filters, subjectLink, table } from "./table.js";
import { say } from "./words/records.js";

const BY = ["user", "service_account", "group", "model", "key", "day"];
const MOST_ROWS = 200;
const DAY_MS = 86_400_000;

export async function show(here) {
  const by = BY.includes(here.query.get("by")) ? here.query.get("by") : "user";
  const choice = choose(
    here,
    "by",
    say("by"),
    BY.map((name) => [name, say(`by_${name}`)]),
  );
  const day = { type: "date" };
  here.place.append(filters(here, choice, filter(here, "from", say("from"), day), filter(here, "to", say("to"), day)));
  const asked = Object.entries({ by, from: here.query.get("from"), to: here.query.get("to") }).filter(
    ([, value]) => value,
  );
  const path = (more) => `/admin/v1/usage?${new URLSearchParams([...asked, ...more])}`;
  const options = { signal: here.signal };
  const [found, days] = await Promise.all([
    askJson(path([["limit", MOST_ROWS]]), options),
    by === "day" ? null : askJson(path([]).replace(`by=${by}`, "by=day"), options),
  ]);
  here.place.append(
    h("p", { class: "soft" }, say("first_words", { from: found.from, to: found.to })),
    h("section", { class: "card" }, dayChart(found, (days ?? found).data)),
    h(
      "section",
      { class: "card" },
      table(say(`by_${by}`), columns(by, found.total), rowsOf(found)).element,
      h("p", {}, h("a", { href: path([["format", "csv"]]), download: `usage-by-${by}.csv` }, say("csv"))),
    ),
  );
}

function rowsOf({ data, others, total }) {
  return [...data, ...(others ? [{ ...others, sum: say("others") }] : []), { ...total, sum: say("total") }];
}

function columns(by, total) {
  const whole = tokens(total);
  const share = (row) => {
    const part = whole ? tokens(row) / whole : 0;
    return gauge(part, say("per_share", { percent: percent(part) }), 2);
  };
  return [
    { title: say(`by_${by}`), cell: (row) => (row.sum ? h("strong", {}, row.sum) : nameOf(by, row)) },
    { title: say("requests"), cell: (row) => number(row.requests), number: true },
    { title: say("failed"), cell: (row) => number(row.failed), number: true },
    { title: say("prompt"), cell: (row) => number(row.prompt_tokens), number: true },
    { title: say("cached"), cell: (row) => number(row.cached_tokens), number: true },
    { title: say("completion"), cell: (row) => number(row.completion_tokens), number: true },
    { title: say("share"), cell: share },
    { title: say("cost"), cell: (row) => number(Number(row.cost), 2), number: true },
  ];
}

function nameOf(by, { id, name }) {
  if (id === "") return say("none_of");
  return by === "user" || by === "service_account" ? subjectLink(id, name) : name || id;
}

/** Days on which nothing was used have no row, and a place all the same. */
function dayChart({ from, to }, rows) {
  const used = new Map(rows.map((row) => [row.id, tokens(row)]));
  const values = [];
  for (let at = Date.parse(from); at <= Date.parse(to); at += DAY_MS) {
    values.push(used.get(new Date(at).toISOString().slice(0, 10)) ?? 0);
  }
  const said = say("days_chart", { most: number(Math.max(0, ...values)) });
  return h(
    "figure",
    {},
    columnChart(values, said),
    h("p", { class: "soft chart-words" }, h("span", {}, from), values.length > 1 && h("span", {}, to)),
    h("figcaption", { class: "soft" }, said),
  );
}

function tokens({ prompt_tokens: prompt, completion_tokens: completion }) {
  return prompt + completion;
}
