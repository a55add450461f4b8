// Tables, whole ones and those that come a page at a time.

import { askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { moment } from "../lib/format.js";
import { problem } from "./problem.js";
import { say } from "./words/frame.js";

/** columns: [{title, cell(row), number}]; a cell is text, a node, or an array of these. none: what no rows are called. */
export function table(label, columns, rows, none = say("none")) {
  const body = h("tbody", {});
  const empty = h("p", { class: "soft" }, none);
  const region = h(
    "div",
    { class: "scrolls", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map(heading))), body),
  );
  const add = (more) => {
    body.append(
      ...more.map((row) =>
        h(
          "tr",
          {},
          columns.map((column) => cell(column, row)),
        ),
      ),
    );
    empty.hidden = body.children.length > 0;
    region.hidden = !empty.hidden;
  };
  add(rows);
  return { element: h("div", {}, region, empty), add };
}

/**
 * A table of a list of the API, and a button for what comes after. path: may hold a query. cursor: the name of the
 * parameter that takes `next`.
 */
export async function listing(here, label, columns, path, { cursor = "after", none } = {}) {
  const url = new URL(path, location.origin);
  const made = table(label, columns, [], none);
  const more = h("button", { type: "button", hidden: true, onclick: load }, say("more"));
  const faults = h("div", {});
  made.element.hidden = true; // what nobody has answered yet is not empty
  await load();
  return h("div", { class: "listing" }, made.element, faults, more);

  async function load() {
    more.disabled = true;
    try {
      const answer = await askJson(url.pathname + url.search, { signal: here.signal });
      fill(faults);
      made.add(answer.data);
      made.element.hidden = false;
      more.hidden = !answer.has_more;
      if (answer.next) url.searchParams.set(cursor, answer.next);
    } catch (fault) {
      if (fault.name === "AbortError") throw fault;
      fill(faults, problem(fault));
      more.hidden = false; // to be tried again
    }
    more.disabled = false;
  }
}

/** A form above a table: what is asked stands in the address. fields: elements with a name. */
export function filters(here, ...fields) {
  const form = h(
    "form",
    { class: "filters", role: "search", onsubmit: submitted },
    fields,
    h("button", {}, say("search")),
  );
  return form;

  function submitted(event) {
    event.preventDefault();
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    here.go(`${location.pathname}${query.size ? `?${query}` : ""}`);
  }
}

export function filter(here, name, label, props = {}) {
  return h("label", {}, label, h("input", { name, value: here.query.get(name) ?? "", maxlength: 300, ...props }));
}

/** One of [[value, text], ...]. */
export function choose(here, name, label, choices) {
  const options = choices.map(([value, text]) => h("option", { value }, text));
  const [value] = choices.find(([one]) => one === here.query.get(name)) ?? choices[0];
  return h("label", {}, label, h("select", { name, value }, options));
}

/** What the address asks of these, as a query. */
export function asked(here, ...names) {
  return new URLSearchParams([...here.query].filter(([name, value]) => names.includes(name) && value));
}

export function link(page, id, text = id) {
  return h("a", { href: `/console/${page}/${encodeURIComponent(id)}` }, text || id);
}

/** A person or a program, by the id that usage has; whom a program names has no page. */
export function subjectLink(id, name) {
  if (id.includes("/")) return id;
  return link(id.startsWith("usr_") ? "users" : "service-accounts", id, name || id);
}

/** The same, by what owns keys and has limits: user:ID, service_account:ID; others have no page. */
export function ownerLink(owner, name) {
  const [kind, id] = owner.split(":");
  const isThere = (kind === "user" || kind === "service_account") && !id.includes("/");
  return isThere ? subjectLink(id, name) : owner;
}

/** Buttons of a row; each [text, act, danger]. */
export function buttons(label, ...some) {
  return h(
    "div",
    { class: "row-acts" },
    some
      .filter(Boolean)
      .map(([text, onclick, danger]) =>
        h(
          "button",
          { type: "button", class: danger ? "small danger" : "small", onclick },
          text,
          h("span", { class: "unseen" }, ` ${label}`),
        ),
      ),
  );
}

/** What is known of one thing: pairs of name and value. */
export function facts(...pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, shown(value)))),
  );
}

/** A moment as it stands in a row; null is never. */
export function when(seconds) {
  return seconds ? moment(seconds, { dateStyle: "short", timeStyle: "short" }) : say("never");
}

function heading({ title, number }) {
  return h("th", { scope: "col", class: number ? "number" : null }, title);
}

function cell({ cell: of, number }, row) {
  return h("td", { class: number ? "number" : null }, shown(of(row)));
}

function shown(value) {
  return value === null || value === undefined || value === "" ? say("nothing") : value;
}
