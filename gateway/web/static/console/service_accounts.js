// Programs that use the gateway: the list, and one with its keys.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { act } from "./act.js";
import { keysOf } from "./keys.js";
import { switchAct } from "./switch.js";
import { facts, link, listing, when } from "./table.js";
import { ROLES, say as common } from "./words/frame.js";
import { say } from "./words/people.js";

const ROOT = "/admin/v1/service-accounts";

export async function show(here) {
  if (here.id) return showOne(here);
  if (here.mayChange) {
    here.place.append(h("div", {}, h("button", { class: "primary", onclick: () => make(here) }, say("new_account"))));
  }
  here.place.append(h("section", { class: "card" }, await listing(here, common("service-accounts"), columns, ROOT)));
}

const columns = [
  { title: common("name"), cell: (row) => link("service-accounts", row.id, row.name) },
  { title: common("id"), cell: (row) => h("code", {}, row.id) },
  { title: common("description"), cell: (row) => row.description },
  { title: common("role"), cell: (row) => common(`role_${row.role}`) },
  { title: common("tenant"), cell: (row) => row.tenant },
  { title: say("groups"), cell: (row) => row.groups.join(", ") },
  { title: common("state"), cell: stateOf },
];

async function showOne(here) {
  const path = pathOf(here.id);
  const account = await askJson(path, { signal: here.signal });
  here.place.append(
    h(
      "section",
      { class: "card" },
      h("h2", {}, account.name),
      facts(
        [common("id"), h("code", {}, account.id)],
        [common("description"), account.description],
        [common("role"), common(`role_${account.role}`)],
        [common("tenant"), account.tenant],
        [say("groups"), account.groups.join(", ") || common("none")],
        [common("state"), stateOf(account)],
        [common("created"), when(account.created)],
        [say("created_by"), account.created_by],
      ),
    ),
    acts(here, path, account),
    await keysOf(here, `service_account:${account.id}`),
  );
}

function acts(here, path, account) {
  const applies = `/console/policies/effective?service_account=${account.id}`;
  const links = [h("a", { class: "button", href: applies }, say("applies"))];
  if (here.mayChange) {
    const button = (text, onclick, kind) => h("button", { type: "button", class: kind, onclick }, text);
    links.push(
      button(common("change"), () => change(here, path, account)),
      button(say(account.disabled ? "enable" : "disable"), () => switchAct(here, path, account, account.name)),
      button(common("delete"), () => remove(here, path, account), "danger"),
    );
  }
  return h("div", { class: "page-acts" }, links);
}

function fields(account = { role: "service" }) {
  const roles = ROLES.map((role) => [role, common(`role_${role}`)]);
  return [
    { name: "name", kind: "text", label: common("name"), value: account.name, required: true },
    { name: "description", kind: "text", label: common("description"), value: account.description, empty: "" },
    { name: "role", kind: "choice", label: common("role"), value: account.role, choices: roles },
    { name: "tenant", kind: "text", label: common("tenant"), value: account.tenant ?? "default", required: true },
    { name: "groups", kind: "list", label: say("groups"), value: account.groups },
  ];
}

function make(here) {
  const id = { name: "id", kind: "text", label: say("account_id"), hint: say("account_id_hint") };
  return act({
    title: say("new_account"),
    says: say("account_says"),
    verb: common("save"),
    fields: [...fields(), id],
    run: (json) => askJson(ROOT, { json }),
    done: ({ name }) => say("account_done", { name }),
    undo: (made) => () => askJson(pathOf(made.id), { method: "DELETE" }),
    then: here.again,
  });
}

function change(here, path, account) {
  const patch = (json) => askJson(path, { method: "PATCH", json });
  const { name, description, role, tenant, groups } = account;
  return act({
    title: say("change_named", { name }),
    says: null,
    verb: common("save"),
    fields: fields(account),
    run: patch,
    done: (after) => say("account_done", { name: after.name }),
    undo: () => () => patch({ name, description, role, tenant, groups }),
    then: here.again,
  });
}

function remove(here, path, { name }) {
  return act({
    title: say("delete_named", { name }),
    says: say("delete_account_says", { name }),
    verb: common("delete"),
    danger: true,
    run: () => askJson(path, { method: "DELETE" }),
    done: () => say("deleted", { name }),
    then: () => here.go("/console/service-accounts"),
  });
}

function stateOf({ disabled }) {
  return h("span", { class: disabled ? "bad" : "good" }, common(disabled ? "disabled" : "enabled"));
}

function pathOf(id) {
  return `${ROOT}/${encodeURIComponent(id)}`;
}
