// Who is signed in with a browser, since when and from where: everybody, or one person. One is ended, or all of a person.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { act } from "./act.js";
import { buttons, link, listing, table, when } from "./table.js";
import { say as common } from "./words/frame.js";
import { say } from "./words/people.js";

const ROOT = "/admin/v1/sessions";

export async function show(here) {
  const who = { title: say("who"), cell: ({ user, name }) => link("users", user, name || user) };
  const all = (row) => [say("sign_out"), () => signOut(here, row.user, row.name || row.user), true];
  const columns = [who, ...columnsOf(here, all)];
  here.place.append(h("section", { class: "card" }, await listing(here, common("sessions"), columns, ROOT)));
}

/** A card of the sessions of one person. */
export function sessionsOf(here, user, sessions, name) {
  const all = () => signOut(here, user, name);
  return h(
    "section",
    { class: "card" },
    h("h2", {}, say("sessions")),
    table(say("sessions"), columnsOf(here), sessions).element,
    here.mayChange &&
      sessions.length > 0 &&
      h("button", { type: "button", class: "danger", onclick: all }, say("sign_out")),
  );
}

/** more(row): another button of a row. */
function columnsOf(here, more = () => null) {
  const columns = [
    { title: say("seen"), cell: (row) => when(row.seen) },
    { title: say("since"), cell: (row) => when(row.created) },
    { title: say("address"), cell: (row) => row.address },
    { title: say("agent"), cell: (row) => row.agent },
    { title: say("ends"), cell: (row) => when(row.ends) },
  ];
  if (!here.mayChange) return columns;
  const acts = (row) => buttons(row.agent, [say("end_session"), () => end(here, row), true], more(row));
  return [...columns, { title: common("acts"), cell: acts }];
}

function end(here, { id, user, name }) {
  const whose = { name: name || user };
  return act({
    title: say("end_session"),
    says: say("end_session_says", whose),
    danger: true,
    run: () => askJson(`${ROOT}/${encodeURIComponent(id)}`, { method: "DELETE" }),
    done: () => say("end_session_done", whose),
    then: here.again,
  });
}

function signOut(here, user, name) {
  return act({
    title: say("sign_out"),
    says: say("sign_out_says", { name }),
    danger: true,
    run: () => askJson(`/admin/v1/users/${encodeURIComponent(user)}/sessions`, { method: "DELETE" }),
    done: ({ ended }) => say("sign_out_done", { name, count: number(ended) }),
    then: here.again,
  });
}
