// People: the list, and one person with role and why, sessions and keys.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { act } from "./act.js";
import { keysOf } from "./keys.js";
import { sessionsOf } from "./sessions.js";
import { switchAct } from "./switch.js";
import { asked, choose, facts, filter, filters, link, listing, when } from "./table.js";
import { ROLES, say as common } from "./words/frame.js";
import { say } from "./words/people.js";

const ROOT = "/admin/v1/users";
const STATES = ["enabled", "disabled"];

export async function show(here) {
  if (here.id) return showOne(here);
  if (here.mayChange) await offerNew(here);
  here.place.append(
    filters(
      here,
      filter(here, "search", say("search_words"), { maxlength: 200, type: "search" }),
      choose(here, "state", common("state"), [["", common("all")], ...STATES.map((name) => [name, common(name)])]),
    ),
  );
  const path = `${ROOT}?${asked(here, "search", "state")}`;
  here.place.append(h("section", { class: "card" }, await listing(here, common("users"), columns, path)));
}

const columns = [
  { title: common("name"), cell: (row) => link("users", row.id, nameOf(row)) },
  { title: say("email"), cell: (row) => row.email },
  { title: common("role"), cell: (row) => common(`role_${row.role}`) },
  { title: common("tenant"), cell: (row) => row.tenant },
  { title: say("groups"), cell: (row) => row.groups.join(", ") },
  { title: common("state"), cell: stateOf },
  { title: say("last_seen"), cell: (row) => when(row.last_seen) },
];

async function showOne(here) {
  const path = pathOf(here.id);
  const user = await askJson(path, { signal: here.signal });
  const { data: sessions } = await askJson(`${path}/sessions`, { signal: here.signal });
  const name = nameOf(user);
  here.place.append(
    h(
      "section",
      { class: "card" },
      h("h2", {}, name),
      facts(
        [common("role"), common(`role_${user.role}`)],
        [common("tenant"), user.tenant],
        [say("groups"), user.groups.join(", ") || common("none")],
        [
          say("why"),
          h(
            "ul",
            {},
            user.why.map((reason) => h("li", {}, reason)),
          ),
        ],
        [say("decided"), decided(user.decided)],
        [common("state"), stateOf(user)],
        [say("email"), user.email],
        [say("issuer"), user.issuer],
        [say("subject"), user.subject],
        [common("id"), h("code", {}, user.id)],
        [common("created"), when(user.created)],
        [say("last_seen"), when(user.last_seen)],
      ),
    ),
    acts(here, path, user, name),
    sessionsOf(here, user.id, sessions, name),
    await keysOf(here, `user:${user.id}`),
  );
}

/** Somebody may be made before the first sign-in, where there is a provider to sign in with. */
async function offerNew(here) {
  const { data } = await askJson("/admin/v1/settings", { signal: here.signal });
  const issuers = data.find(({ name }) => name === "issuers").value.map(({ issuer }) => issuer);
  if (!issuers.length) return;
  here.place.append(
    h("div", {}, h("button", { class: "primary", onclick: () => make(here, issuers) }, say("new_user"))),
  );
}

function make(here, issuers) {
  const roles = [["", say("by_sign_in")], ...ROLES.map((role) => [role, common(`role_${role}`)])];
  const choices = issuers.map((issuer) => [issuer, issuer]);
  return act({
    title: say("new_user"),
    says: say("new_user_says"),
    verb: common("save"),
    fields: [
      { name: "issuer", kind: "choice", label: say("issuer"), value: issuers[0], choices },
      { name: "subject", kind: "text", label: say("subject"), hint: say("subject_hint"), required: true },
      { name: "name", kind: "text", label: common("name"), empty: "" },
      { name: "email", kind: "text", label: say("email"), empty: "" },
      { name: "set_role", kind: "choice", label: common("role"), choices: roles },
      { name: "set_tenant", kind: "text", label: common("tenant"), hint: say("left_to_sign_in") },
      { name: "set_groups", kind: "list", label: say("groups"), hint: say("left_to_sign_in"), empty: null },
    ],
    run: (json) => askJson(ROOT, { json }),
    done: (made) => say("new_user_done", { name: nameOf(made) }),
    undo: (made) => () => askJson(pathOf(made.id), { method: "DELETE" }),
    then: here.again,
  });
}

function acts(here, path, user, name) {
  const applies = h("a", { class: "button", href: `/console/policies/effective?user=${user.id}` }, say("applies"));
  if (!here.mayChange) return h("div", { class: "page-acts" }, applies);
  const button = (text, onclick, kind) => h("button", { type: "button", class: kind, onclick }, text);
  return h(
    "div",
    { class: "page-acts" },
    applies,
    button(say("rights"), () => changeRights(here, path, user, name)),
    button(say(user.disabled ? "enable" : "disable"), () => switchAct(here, path, user, name)),
    button(common("delete"), () => remove(here, path, name), "danger"),
  );
}

function changeRights(here, path, user, name) {
  const patch = (json) => askJson(path, { method: "PATCH", json });
  const { set_role, set_tenant, set_groups } = user;
  const roles = [["", say("by_sign_in")], ...ROLES.map((role) => [role, common(`role_${role}`)])];
  return act({
    title: say("rights_title", { name }),
    says: say("rights_says"),
    verb: common("save"),
    fields: [
      { name: "set_role", kind: "choice", label: common("role"), value: set_role, choices: roles },
      { name: "set_tenant", kind: "text", label: common("tenant"), value: set_tenant },
      { name: "own_groups", kind: "check", label: say("groups_set"), value: set_groups !== null },
      { name: "set_groups", kind: "list", label: say("groups"), value: set_groups ?? user.groups },
    ],
    run: ({ own_groups: own, ...values }) => patch({ ...values, set_groups: own ? values.set_groups : null }),
    done: (after) => say("rights_done", { name, role: common(`role_${after.role}`), tenant: after.tenant }),
    undo: () => () => patch({ set_role, set_tenant, set_groups }),
    then: here.again,
  });
}

function remove(here, path, name) {
  return act({
    title: say("delete_named", { name }),
    says: say("delete_user_says", { name }),
    verb: common("delete"),
    danger: true,
    run: () => askJson(path, { method: "DELETE" }),
    done: () => say("deleted", { name }),
    then: () => here.go("/console/users"),
  });
}

function stateOf({ disabled, problem }) {
  return [
    h("span", { class: disabled ? "bad" : "good" }, common(disabled ? "disabled" : "enabled")),
    problem && h("span", { class: "soft reason" }, problem),
  ];
}

function decided({ role, tenant, groups }) {
  return say("decided_words", { role: common(`role_${role}`), tenant, groups: groups.join(", ") || common("nothing") });
}

function nameOf({ name, email, subject }) {
  return name || email || subject;
}

function pathOf(id) {
  return `${ROOT}/${encodeURIComponent(id)}`;
}
