// Names that people use for models: pointed elsewhere and ended, whatever the settings say.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { act } from "./act.js";
import { buttons, table } from "./table.js";
import { taken } from "./taken.js";
import { say } from "./words/backends.js";
import { say as common } from "./words/frame.js";

/** aliases: {name: model}. */
export function aliasesOf(here, aliases, then) {
  const rows = Object.entries(aliases);
  if (!rows.length && !here.mayChange) return null;
  const columns = [
    { title: common("name"), cell: ([name]) => h("code", {}, name) },
    { title: say("stands_for"), cell: ([, model]) => model },
  ];
  if (here.mayChange) {
    const acts = ([name, model]) =>
      buttons(
        name,
        [common("change"), () => point(aliases, name, then)],
        [say("end"), () => end(name, model, then), true],
      );
    columns.push({ title: common("acts"), cell: acts });
  }
  const make = h("button", { type: "button", onclick: () => point(aliases, null, then) }, say("new_alias"));
  return h(
    "section",
    { class: "card" },
    h("h2", {}, say("aliases")),
    table(say("aliases"), columns, rows).element,
    here.mayChange && h("p", {}, make),
  );
}

/** name: null for a new one. */
function point(aliases, name, then) {
  const before = name && aliases[name];
  const named = { name: "id", kind: "text", label: common("name"), required: true };
  const model = { name: "model", kind: "text", label: say("stands_for"), value: before, required: true };
  return act({
    title: name ? say("alias_title", { name }) : say("new_alias"),
    says: say("alias_says"),
    verb: common("save"),
    fields: name ? [model] : [named, model],
    run: async ({ id = name, model: to }) => {
      if (!name && id in aliases) throw taken(id);
      return put(id, to);
    },
    done: (alias) => say("alias_done", { name: alias.id, model: alias.model }),
    undo: (alias) => () => (name ? put(name, before) : remove(alias.id)),
    then,
  });
}

function end(name, model, then) {
  return act({
    title: say("alias_end", { name }),
    says: say("alias_end_says", { name }),
    verb: say("end"),
    danger: true,
    run: () => remove(name),
    done: () => say("alias_ended", { name }),
    undo: () => () => put(name, model),
    then,
  });
}

function put(name, model) {
  return askJson(pathOf(name), { method: "PUT", json: { model } });
}

function remove(name) {
  return askJson(pathOf(name), { method: "DELETE" });
}

function pathOf(name) {
  return `/admin/v1/aliases/${encodeURIComponent(name)}`;
}
