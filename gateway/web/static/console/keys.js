// API keys: the list, one owner's, and what is done to them. A key itself is shown once, in a dialog of its own.

import { askJson } from "../lib/api.js";
import { copyButton } from "../lib/clipboard.js";
import { h } from "../lib/dom.js";
import { moment } from "../lib/format.js";
import { act } from "./act.js";
import { asked, buttons, choose, filter, filters, listing, ownerLink, when } from "./table.js";
import { CLASSES, say as common } from "./words/frame.js";
import { say } from "./words/keys.js";

const ROOT = "/admin/v1/keys";
const ENDPOINTS = ["chat", "completions", "responses", "embeddings", "rerank", "models", "files", "batches"];
const STATES = ["good", "expired"];
const OVERLAP_SECONDS = 3600;

export async function show(here) {
  const owner = here.query.get("owner") ?? "";
  here.place.append(
    filters(
      here,
      filter(here, "owner", say("owner"), { maxlength: 100, placeholder: say("owner_hint") }),
      choose(here, "state", common("state"), [["", common("all")], ...STATES.map((name) => [name, say(name)])]),
    ),
    await keysOf(here, owner),
  );
}

/** A card of the keys of an owner (user:ID, service_account:ID); empty: of everybody. */
export async function keysOf(here, owner) {
  const path = `${ROOT}?${new URLSearchParams([["owner", owner], ...asked(here, "state")])}`;
  const make = h("button", { type: "button", onclick: () => create(here, owner) }, say("new_key"));
  return h(
    "section",
    { class: "card" },
    h("h2", {}, say("keys")),
    await listing(here, say("keys"), columns(here, owner), path),
    here.mayChange && h("p", {}, make),
  );
}

function columns(here, owner) {
  const shown = [
    { title: common("name"), cell: (row) => [row.name, h("span", { class: "soft reason" }, row.id)] },
    ...(owner ? [] : [{ title: say("owner"), cell: (row) => ownerLink(row.owner) }]),
    { title: say("models"), cell: (row) => row.models?.join(", ") ?? common("all") },
    { title: say("endpoints"), cell: endpointsOf },
    { title: say("expires"), cell: expiry },
    { title: say("last_used"), cell: (row) => when(row.last_used) },
  ];
  if (here.mayChange) shown.push({ title: common("acts"), cell: (row) => acts(here, row) });
  return shown;
}

function acts(here, key) {
  return buttons(
    key.name,
    [common("change"), () => change(here, key)],
    [say("rotate"), () => rotate(here, key)],
    [say("revoke"), () => revoke(here, key), true],
  );
}

function create(here, owner) {
  const whose = { name: "owner", kind: "text", label: say("owner"), hint: say("owner_hint"), required: true };
  return act({
    title: say("new_key"),
    says: say("new_says"),
    fields: [...(owner ? [] : [whose]), ...fields({ endpoints: ENDPOINTS })],
    run: (values) => askJson(ROOT, { json: { owner, ...limits(values) } }),
    done: (made) => say("made", made),
    undo: (made) => () => askJson(pathOf(made), { method: "DELETE" }),
    then: (made) => (made ? showOnce(here, made) : here.again()),
  });
}

function change(here, key) {
  const patch = (json) => askJson(pathOf(key), { method: "PATCH", json });
  const { name, models, endpoints, on_behalf_of, forwards_users, queue_class, allowed_ips, expires } = key;
  return act({
    title: say("change_title", key),
    says: say("change_says"),
    verb: common("save"),
    fields: fields(key),
    run: (values) => patch(limits(values)),
    done: (after) => say("changed", after),
    undo: () => () =>
      patch({ name, models, endpoints, on_behalf_of, forwards_users, queue_class, allowed_ips, expires }),
    then: here.again,
  });
}

function rotate(here, key) {
  const overlap = { name: "overlap_seconds", kind: "number", label: say("overlap"), hint: say("overlap_hint") };
  return act({
    title: say("rotate_title", key),
    says: say("rotate_says"),
    verb: say("rotate"),
    danger: true,
    fields: [{ ...overlap, value: OVERLAP_SECONDS, min: 0, max: 2592000, step: 1, required: true }],
    run: (json) => askJson(`${pathOf(key)}/rotate`, { json }),
    done: (made) => say("rotated", made),
    then: (made) => showOnce(here, made),
  });
}

function revoke(here, key) {
  return act({
    title: say("revoke_title", key),
    says: say("revoke_says", key),
    verb: say("revoke"),
    danger: true,
    run: () => askJson(pathOf(key), { method: "DELETE" }),
    done: () => say("revoked", key),
    then: here.again,
  });
}

/** The one time that a key is seen. It is nowhere once the dialog is closed. */
function showOnce(here, { key, name }) {
  const text = h("code", {}, key);
  const dialog = h(
    "dialog",
    { "aria-labelledby": "once-title" },
    h("h2", { id: "once-title" }, name),
    h("p", {}, say("once")),
    h(
      "div",
      { class: "once" },
      text,
      h(
        "div",
        {},
        copyButton(() => key, text, say("the_key")),
      ),
    ),
    h("div", { class: "actions" }, h("button", { class: "primary", onclick: () => dialog.close() }, say("kept"))),
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    here.again();
  });
  document.body.append(dialog);
  dialog.showModal();
}

function fields(key) {
  const classes = [["", say("by_default")], ...CLASSES.map((name) => [name, common(`class_${name}`)])];
  const some = say("endpoints_hint", { some: ENDPOINTS.join(", ") });
  return [
    { name: "name", kind: "text", label: common("name"), value: key.name, required: true },
    { name: "models", kind: "list", label: say("models"), value: key.models, hint: say("models_hint"), empty: null },
    { name: "limited", kind: "check", label: say("endpoints_own"), value: key.endpoints !== null },
    { name: "endpoints", kind: "list", label: say("endpoints"), value: key.endpoints ?? ENDPOINTS, hint: some },
    { name: "expires", kind: "time", label: say("expires"), value: key.expires, hint: say("expires_hint") },
    {
      name: "allowed_ips",
      kind: "list",
      label: say("allowed_ips"),
      value: key.allowed_ips,
      hint: say("allowed_ips_hint"),
    },
    { name: "queue_class", kind: "choice", label: say("queue_class"), value: key.queue_class, choices: classes },
    { name: "on_behalf_of", kind: "check", label: say("on_behalf_of"), value: key.on_behalf_of },
    { name: "forwards_users", kind: "check", label: say("forwards_users"), value: key.forwards_users },
  ];
}

function limits({ limited, endpoints, ...values }) {
  return { ...values, endpoints: limited ? endpoints : null };
}

function endpointsOf({ endpoints }) {
  if (endpoints === null) return common("all");
  const usual = endpoints.length === ENDPOINTS.length && ENDPOINTS.every((name) => endpoints.includes(name));
  return usual ? say("endpoints_usual") : endpoints.join(", ");
}

function expiry({ expires, previous_until: until }) {
  const now = Date.now() / 1000;
  const old =
    until && until > now ? h("span", { class: "soft reason" }, say("previous_until", { at: moment(until) })) : null;
  return [expires && expires < now ? h("span", { class: "bad" }, say("expired")) : when(expires), old];
}

function pathOf({ id }) {
  return `${ROOT}/${encodeURIComponent(id)}`;
}
