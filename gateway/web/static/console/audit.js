// Who changed what, when and from where. Nothing here changes it.

import { h } from "../lib/dom.js";
import { moment, number } from "../lib/format.js";
import { differenceList } from "./differences.js";
import { filter, filters, listing } from "./table.js";
import { say as common } from "./words/frame.js";
import { say } from "./words/records.js";

const FILTERS = ["action", "target", "actor"];
const MOST_SHOWN = 3; // changes at once; whoever wants to see more opens them

export async function show(here) {
  here.place.append(
    filters(
      here,
      filter(here, "action", say("action"), { placeholder: say("action_hint"), maxlength: 100 }),
      filter(here, "target", say("target"), { placeholder: say("target_hint") }),
      filter(here, "actor", say("actor_filter")),
    ),
  );
  const query = new URLSearchParams(FILTERS.map((name) => [name, here.query.get(name) ?? ""]));
  const path = `/admin/v1/audit?${query}`;
  here.place.append(
    h("section", { class: "card" }, await listing(here, common("audit"), columns, path, { cursor: "before" })),
  );
}

const columns = [
  { title: say("at"), cell: (row) => moment(row.at, { dateStyle: "medium", timeStyle: "medium" }) },
  {
    title: say("actor"),
    cell: ({ actor }) => [actor.name || actor.subject, h("span", { class: "soft reason" }, say("via", actor))],
  },
  { title: say("action"), cell: (row) => h("code", {}, row.action) },
  { title: say("target"), cell: (row) => row.target },
  { title: say("changes"), cell: changesOf },
];

function changesOf({ before, after }) {
  const list = differenceList(before, after);
  if (!list || list.children.length <= MOST_SHOWN) return list;
  return h("details", {}, h("summary", {}, say("fields", { count: number(list.children.length) })), list);
}
