// Groups: what belonging to one gives.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { act } from "./act.js";
import { buttons, listing } from "./table.js";
import { unlessTaken } from "./taken.js";
import { ROLES, say as common } from "./words/frame.js";
import { say } from "./words/people.js";

export async function show(here) {
  const columns = [
    { title: common("name"), cell: (row) => row.id },
    { title: common("description"), cell: (row) => row.description },
    { title: say("gives_role"), cell: (row) => row.role && common(`role_${row.role}`) },
    { title: say("gives_tenant"), cell: (row) => row.tenant },
  ];
  if (here.mayChange) {
    const acts = (row) =>
      buttons(row.id, [common("change"), () => save(here, row)], [common("delete"), () => remove(here, row), true]);
    columns.push({ title: common("acts"), cell: acts });
    const make = () => save(here, null);
    here.place.append(h("div", {}, h("button", { class: "primary", onclick: make }, say("new_group"))));
  }
  here.place.append(
    h("section", { class: "card" }, await listing(here, common("groups"), columns, "/admin/v1/groups")),
  );
}

/** before: the group as it is; null: a new one. */
function save(here, before) {
  const roles = [["", say("gives_none")], ...ROLES.map((role) => [role, common(`role_${role}`)])];
  const name = { name: "id", kind: "text", label: say("group_name"), required: true };
  return act({
    title: before ? say("change_named", { name: before.id }) : say("new_group"),
    says: say("group_says"),
    verb: common("save"),
    fields: [
      ...(before ? [] : [name]),
      { name: "description", kind: "text", label: common("description"), value: before?.description, empty: "" },
      { name: "role", kind: "choice", label: say("gives_role"), value: before?.role, choices: roles },
      { name: "tenant", kind: "text", label: say("gives_tenant"), value: before?.tenant },
    ],
    run: async ({ id = before?.id, ...values }) => {
      if (!before) await unlessTaken(pathOf(id), id);
      return put(id, values);
    },
    done: ({ id }) => say("group_done", { name: id }),
    undo:
      ({ id }) =>
      () =>
        before ? put(id, given(before)) : askJson(pathOf(id), { method: "DELETE" }),
    then: here.again,
  });
}

function remove(here, group) {
  return act({
    title: say("delete_named", { name: group.id }),
    says: say("delete_group_says", { name: group.id }),
    verb: common("delete"),
    danger: true,
    run: () => askJson(pathOf(group.id), { method: "DELETE" }),
    done: () => say("deleted", { name: group.id }),
    undo: () => () => put(group.id, given(group)),
    then: here.again,
  });
}

function put(id, json) {
  return askJson(pathOf(id), { method: "PUT", json });
}

function given({ description, role, tenant }) {
  return { description, role, tenant };
}

function pathOf(id) {
  return `/admin/v1/groups/${encodeURIComponent(id)}`;
}
