// Quota policies: the list, one of them as a form, and what they come to for somebody.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { act } from "./act.js";
import { differenceList, shown } from "./differences.js";
import { showEffective } from "./effective.js";
import { formOf } from "./fields.js";
import { fieldName, fieldsOf, limitsOf, policyOf } from "./policy_fields.js";
import { facts, link, listing, when } from "./table.js";
import { unlessTaken } from "./taken.js";
import { whatIf } from "./what_if.js";
import { say as common } from "./words/frame.js";
import { say } from "./words/policies.js";

const ROOT = "/admin/v1/policies";

export async function show(here) {
  if (here.id === "effective") return showEffective(here);
  if (here.id) return showOne(here, await askJson(pathOf(here.id), { signal: here.signal }));
  if (here.query.has("new") && here.mayChange) return showOne(here, null);
  here.place.append(
    h(
      "div",
      { class: "page-acts" },
      here.mayChange && h("a", { class: "button primary", href: "/console/policies?new" }, say("new_policy")),
      h("a", { class: "button", href: "/console/policies/effective" }, say("effective")),
    ),
    h("section", { class: "card" }, await listing(here, common("policies"), columns, ROOT)),
  );
}

const columns = [
  { title: say("policy_name"), cell: (row) => link("policies", row.id) },
  { title: fieldName("applies_to"), cell: (row) => row.applies_to.join(", ") },
  { title: fieldName("models"), cell: (row) => row.models.join(", ") },
  {
    title: say("limits"),
    cell: (row) => [
      h(
        "ul",
        {},
        limitsOf(row).map(([name, value]) => h("li", {}, say("limits_words", { name, value: shown(value) }))),
      ),
      row.shadow && h("span", { class: "warn" }, say("in_shadow")),
    ],
  },
  { title: common("description"), cell: (row) => row.description },
];

/** policy: null for a new one. */
function showOne(here, policy) {
  if (!here.mayChange) {
    const pairs = fieldsOf(here.schema, policy).map(({ label, value }) => [label, shown(value)]);
    here.place.append(
      h(
        "section",
        { class: "card" },
        h("h2", {}, policy.id),
        facts(...pairs, [common("created"), when(policy.created)]),
      ),
      whatIf(here, () => ({ name: policy.id, policy: restOf(policy) })),
    );
    return;
  }
  const name = { name: "id", kind: "text", label: say("policy_name"), hint: say("name_hint"), required: true };
  const form = formOf([...(policy ? [] : [name]), ...fieldsOf(here.schema, policy)]);
  const was = policy && policyOf(form.values());
  const given = () => {
    const { id = policy?.id, ...values } = form.values();
    return { name: id, policy: policyOf(values) };
  };
  const submitted = (event) => {
    event.preventDefault();
    save(here, was, given());
  };
  const remove =
    policy && h("button", { type: "button", class: "danger", onclick: () => del(here, policy) }, common("delete"));
  here.place.append(
    h(
      "form",
      { class: "card policy", onsubmit: submitted },
      h("h2", {}, policy?.id ?? say("new_policy")),
      form.element,
      h("div", { class: "actions" }, remove, h("button", { class: "primary" }, common("save"))),
    ),
    whatIf(here, given),
  );
}

/** was, policy: as PUT takes it; was: null for a new one. */
function save(here, was, { name, policy }) {
  const changes = differenceList(was, policy);
  return act({
    title: say("save_title", { name }),
    says: changes ? [h("p", {}, say("save_says")), changes] : say("save_same"),
    verb: common("save"),
    run: async () => {
      if (!was) await unlessTaken(pathOf(name), name);
      return put(name, policy);
    },
    done: () => say("saved", { name }),
    undo: () => () => (was ? put(name, was) : askJson(pathOf(name), { method: "DELETE" })),
    then: (after) => here.go(after || was ? `/console/policies/${encodeURIComponent(name)}` : "/console/policies"),
  });
}

function del(here, policy) {
  return act({
    title: say("delete_title", { name: policy.id }),
    says: say("delete_says", { name: policy.id }),
    verb: common("delete"),
    danger: true,
    run: () => askJson(pathOf(policy.id), { method: "DELETE" }),
    done: () => say("deleted", { name: policy.id }),
    undo: () => () => put(policy.id, restOf(policy)),
    then: () => here.go("/console/policies"),
  });
}

function put(id, json) {
  return askJson(pathOf(id), { method: "PUT", json });
}

/** As PUT takes it. */
function restOf({ id, object, created, ...rest }) {
  return rest;
}

function pathOf(id) {
  return `${ROOT}/${encodeURIComponent(id)}`;
}
