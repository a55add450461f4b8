// Engines: how each is, and what administrators order: drain, disable, weigh, add, remove, test.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { duration, number } from "../lib/format.js";
import { act } from "./act.js";
import { aliasesOf } from "./aliases.js";
import { backendColumns } from "./backend_state.js";
import { everySeconds } from "./live.js";
import { buttons, facts } from "./table.js";
import { say } from "./words/backends.js";
import { say as common } from "./words/frame.js";

const ROOT = "/admin/v1/backends";
const SECONDS = 4;
const USES = ["enabled", "drained", "disabled"];

export async function show(here) {
  const kinds = here.schema("BackendNew").properties.kind.enum;
  const live = h("div", { class: "page-body" });
  const again = () => once(); // what was done is seen at once
  const make = h("button", { class: "primary", onclick: () => add(kinds, again) }, say("add"));
  here.place.append(here.mayChange ? h("div", {}, make) : "", live);
  const once = await everySeconds(here, SECONDS, live, async () => {
    const [{ data, aliases }, activity] = await Promise.all(
      [ROOT, "/admin/v1/activity?limit=1"].map((path) => askJson(path, { signal: here.signal })),
    );
    const columns = [...backendColumns(activity.backends).slice(1), ...ordered];
    return [data.map((row) => card(here, columns, row, again)), aliasesOf(here, aliases, again)];
  });
}

const ordered = [
  { title: say("kind"), cell: (row) => row.kind },
  {
    title: say("use"),
    cell: ({ order }) => [
      h("span", { class: order.use === "enabled" ? null : "warn" }, say(`use_${order.use}`)),
      order.added && h("span", { class: "soft reason" }, say("added")),
    ],
  },
  {
    title: say("weight"),
    cell: ({ weight, order }) => [
      number(weight, 1),
      order.weight !== null && h("span", { class: "soft reason" }, say("weight_ordered")),
    ],
  },
];

/** What a table would have in a row. */
function card(here, columns, row, then) {
  const known = columns.map(({ title, cell }) => [title, cell(row)]);
  return h(
    "section",
    { class: "card backend" },
    h("h2", {}, row.name),
    facts(...known),
    here.mayChange && acts(row, then),
  );
}

function acts(row, then) {
  const { use: now, added } = row.order;
  return buttons(
    row.name,
    ...USES.filter((use) => use !== now).map((use) => [say(use), () => turn(row, use, then), use === "disabled"]),
    [say("weight"), () => weigh(row, then)],
    now !== "disabled" && [say("test"), () => test(row, then)],
    added && [say("remove"), () => remove(row, then), true],
  );
}

function turn({ name, order }, use, then) {
  return act({
    title: `${say(use)}: ${name}`,
    says: say(`${use}_says`, { name }),
    verb: say(use),
    danger: use !== "enabled",
    run: () => patch(name, { use }),
    done: () => say("use_done", { name, use: say(`use_${use}`) }),
    undo: () => () => patch(name, { use: order.use }),
    then,
  });
}

function weigh({ name, order }, then) {
  const weight = {
    name: "weight",
    kind: "number",
    label: say("weight"),
    hint: say("weight_hint"),
    min: 0,
    step: "any",
  };
  return act({
    title: say("weight_title", { name }),
    says: say("weight_says"),
    verb: common("save"),
    fields: [{ ...weight, value: order.weight }],
    run: (json) => patch(name, json),
    done: (after) => say("weight_done", { name, weight: number(after.weight, 1) }),
    undo: () => () => patch(name, { weight: order.weight }),
    then,
  });
}

function test({ name }, then) {
  return act({
    title: say("test_title", { name }),
    says: say("test_says", { name }),
    verb: say("test"),
    run: () => askJson(`${pathOf(name)}/test`, { method: "POST" }),
    done: testWords,
    then,
  });
}

function testWords({ ok, seconds, ttft_seconds: ttft, ...trial }) {
  const times = { seconds: duration(seconds), ttft: ttft === null ? common("nothing") : duration(ttft) };
  return say(ok ? "test_good" : "test_bad", { ...trial, ...times });
}

function remove({ name }, then) {
  return act({
    title: say("remove_title", { name }),
    says: say("remove_says", { name }),
    verb: say("remove"),
    danger: true,
    run: () => askJson(pathOf(name), { method: "DELETE" }),
    done: () => say("removed", { name }),
    then,
  });
}

function add(kinds, then) {
  return act({
    title: say("add"),
    says: say("add_says"),
    fields: [
      { name: "name", kind: "text", label: common("name"), hint: say("name_hint"), required: true },
      { name: "kind", kind: "choice", label: say("kind"), value: "openai", choices: kinds.map((kind) => [kind, kind]) },
      { name: "url", kind: "text", label: say("url"), hint: say("url_hint"), required: true },
      { name: "api_key", kind: "secret", label: say("api_key"), hint: say("api_key_hint") },
      { name: "max_concurrency", kind: "number", label: say("max_concurrency"), min: 1, step: 1 },
      { name: "weight", kind: "number", label: say("weight"), min: 0, step: "any" },
      { name: "tier", kind: "number", label: say("tier"), hint: say("tier_hint"), min: 0, max: 9, step: 1 },
      { name: "external", kind: "check", label: say("external") },
    ],
    run: (values) => askJson(ROOT, { json: given(values) }),
    done: ({ name }) => say("add_done", { name }),
    undo:
      ({ name }) =>
      () =>
        askJson(pathOf(name), { method: "DELETE" }),
    then,
  });
}

/** What is left empty is as the settings have it by default. */
function given(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}

function patch(name, json) {
  return askJson(pathOf(name), { method: "PATCH", json });
}

function pathOf(name) {
  return `${ROOT}/${encodeURIComponent(name)}`;
}
