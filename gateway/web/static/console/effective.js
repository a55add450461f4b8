// What applies to somebody on a model, by which policy and why, and what is left of it.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { duration, number } from "../lib/format.js";
import { shown } from "./differences.js";
import { fieldName } from "./policy_fields.js";
import { problem } from "./problem.js";
import { filter, filters, link, table } from "./table.js";
import { say as common } from "./words/frame.js";
import { say } from "./words/policies.js";

const WHO = ["user", "service_account", "key"];
const ASKED = [...WHO, "model"];

export async function showEffective(here) {
  const models = await modelsHere(here);
  const model = here.query.get("model") ?? models[0] ?? "";
  here.query.set("model", model);
  const ids = WHO.map((name) => filter(here, name, say(name)));
  const list = h(
    "datalist",
    { id: "models-here" },
    models.map((name) => h("option", { value: name })),
  );
  const form = filters(here, ids, filter(here, "model", say("on_model"), { list: "models-here" }), list);
  here.place.append(h("h2", {}, say("effective")), form);
  if (!WHO.some((name) => here.query.get(name)) || !model) {
    here.place.append(h("p", { class: "soft" }, say("ask_for")));
    return;
  }
  try {
    const query = new URLSearchParams([...here.query].filter(([name, value]) => ASKED.includes(name) && value));
    here.place.append(answer(await askJson(`/admin/v1/policies/effective?${query}`, { signal: here.signal })));
  } catch (fault) {
    if (fault.name !== "ApiError") throw fault;
    here.place.append(problem(fault));
  }
}

async function modelsHere(here) {
  const { data, aliases } = await askJson("/admin/v1/backends", { signal: here.signal });
  return [...new Set([...Object.keys(aliases), ...data.flatMap((one) => one.models)])].sort();
}

function answer(found) {
  const said = say("effective_words", {
    subject: found.subject,
    role: common(`role_${found.role}`),
    groups: found.groups.join(", ") || common("nothing"),
    model: found.model,
  });
  return h(
    "section",
    { class: "card" },
    h("p", {}, said),
    table(say("effective"), columns, found.limits, say("no_limits")).element,
  );
}

const columns = [
  {
    title: say("limit"),
    cell: (row) => [fieldName(row.limit), row.shadow && h("span", { class: "warn reason" }, say("in_shadow"))],
  },
  { title: say("value"), cell: (row) => amount(row.value), number: true },
  { title: say("left"), cell: (row) => amount(row.left), number: true },
  { title: say("resets"), cell: (row) => (row.reset_seconds ? duration(row.reset_seconds) : null), number: true },
  { title: say("policy"), cell: (row) => link("policies", row.policy) },
  { title: say("because"), cell: (row) => row.why },
  { title: say("shared"), cell: (row) => row.whom },
];

function amount(value) {
  return typeof value === "number" ? number(value) : value === null ? null : shown(value);
}
