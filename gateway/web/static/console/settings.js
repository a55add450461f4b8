// What this gateway runs with, and where each value comes from. Settings are changed where they are written.

import { askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { shown } from "./differences.js";
import { table } from "./table.js";
import { say as common } from "./words/frame.js";
import { say } from "./words/records.js";

export async function show(here) {
  const { data } = await askJson("/admin/v1/settings", { signal: here.signal });
  const search = h("input", { type: "search", name: "search", oninput: select });
  const changed = h("input", { type: "checkbox", name: "changed", onchange: select });
  const place = h("section", { class: "card" });
  here.place.append(
    h("p", { class: "soft" }, say("settings_words")),
    h(
      "div",
      { class: "filters" },
      h("label", {}, common("search"), search),
      h("label", { class: "check" }, changed, say("changed_only")),
    ),
    place,
  );
  select();

  function select() {
    const sought = search.value.trim().toLowerCase();
    const rows = data.filter(
      ({ name, description, source }) =>
        `${name} ${description}`.toLowerCase().includes(sought) && (!changed.checked || source !== "default"),
    );
    fill(place, table(common("settings"), columns, rows).element);
  }
}

const columns = [
  {
    title: say("setting"),
    cell: (row) => [h("code", {}, row.name), h("span", { class: "soft reason" }, row.description)],
  },
  { title: say("value"), cell: (row) => shown(row.value) },
  { title: say("default"), cell: (row) => shown(row.default) },
  {
    title: say("source"),
    cell: (row) => [say(`source_${row.source}`), row.live && h("span", { class: "soft reason" }, say("live"))],
  },
];
