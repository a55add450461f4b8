// The queue live: who runs and who waits in each line; requests ended or moved, models drained.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { duration, moment, number } from "../lib/format.js";
import { act } from "./act.js";
import { everySeconds } from "./live.js";
import { buttons, filter, filters, subjectLink, table } from "./table.js";
import { CLASSES, say as common } from "./words/frame.js";
import { say } from "./words/live.js";

const SECONDS = 2;
const MOST = 100;

export async function show(here) {
  const subject = here.query.get("subject") ?? "";
  const live = h("div", { class: "page-body" });
  here.place.append(filters(here, filter(here, "subject", say("subject"))), live);
  const path = `/admin/v1/queue?${new URLSearchParams({ limit: MOST, subject })}`;
  const again = () => once(); // what was done is seen at once
  const once = await everySeconds(here, SECONDS, live, async () => {
    const [{ lines, draining }, names] = await Promise.all([askJson(path, { signal: here.signal }), namesOf(here)]);
    const shown = lines.map((line) => lineOf(here, line, draining, names, again));
    return lines.length ? shown : h("p", {}, say("all_idle"));
  });
}

/** Of those who are here, by their ids. */
async function namesOf(here) {
  const { subjects } = await askJson("/admin/v1/activity?limit=1000", { signal: here.signal });
  return new Map(subjects.map(({ id, name }) => [id, name]));
}

function lineOf(here, line, draining, names, again) {
  const waiting = [
    { title: say("place"), cell: (row) => number(row.place), number: true },
    ...columns(names),
    { title: say("eta"), cell: (row) => (row.eta_seconds === null ? null : duration(row.eta_seconds)), number: true },
    ...acts(here, (row) => [
      [say("class"), () => move(row, again)],
      [say("end"), () => end(row, again), true],
    ]),
  ];
  const running = [
    { title: say("backend"), cell: (row) => row.backend },
    ...columns(names),
    ...acts(here, (row) => [[say("end"), () => end(row, again), true]]),
  ];
  return h(
    "section",
    { class: "card" },
    h("h2", {}, say("line", { name: line.name })),
    h("p", {}, CLASSES.map((klass) => counts(klass, line.classes[klass])).join(" · ")),
    h(
      "p",
      { class: "models" },
      line.models.map((model) => modelOf(here, model, draining, again)),
    ),
    h("h3", {}, say("who_waits")),
    table(say("who_waits"), waiting, line.waiting, say("nobody")).element,
    h("h3", {}, say("who_runs")),
    table(say("who_runs"), running, line.running, say("nobody")).element,
  );
}

function counts(klass, { running, waiting }) {
  return say("class_counts", { class: common(`class_${klass}`), running: number(running), waiting: number(waiting) });
}

function columns(names) {
  return [
    { title: say("subject"), cell: ({ subject }) => subjectLink(subject, names.get(subject)) },
    { title: common("model"), cell: (row) => row.model },
    { title: say("class"), cell: (row) => common(`class_${row.class}`) },
    { title: say("tokens_expected"), cell: (row) => number(row.tokens), number: true },
    { title: say("since"), cell: (row) => moment(row.running_since ?? row.waiting_since, { timeStyle: "medium" }) },
  ];
}

function acts(here, some) {
  if (!here.mayChange) return [];
  return [{ title: common("acts"), cell: (row) => buttons(row.id, ...some(row)) }];
}

function modelOf(here, model, draining, again) {
  const drained = draining.some(({ id }) => id === model);
  const turn = () => drain(model, !drained, again);
  return h(
    "span",
    { class: "model" },
    h("code", {}, model),
    drained && h("span", { class: "warn" }, ` ${say("drained")}`),
    here.mayChange && buttons(model, [say(drained ? "undrain" : "drain", { model }), turn]),
  );
}

function end(request, then) {
  return act({
    title: say("end_title"),
    says: say("end_says", request),
    verb: say("end"),
    danger: true,
    run: () => askJson(`/admin/v1/queue/${encodeURIComponent(request.id)}`, { method: "DELETE" }),
    done: () => say("ended", request),
    then,
  });
}

function move(request, then) {
  const to = (klass) =>
    askJson(`/admin/v1/queue/${encodeURIComponent(request.id)}`, { method: "PATCH", json: { class: klass } });
  const choices = CLASSES.map((klass) => [klass, common(`class_${klass}`)]);
  return act({
    title: say("class_title"),
    says: say("class_says", request),
    fields: [{ name: "class", kind: "choice", label: say("class"), value: request.class, choices }],
    run: (values) => to(values.class),
    done: (after) => say("class_done", { id: after.id, class: common(`class_${after.class}`) }),
    undo: () => () => to(request.class),
    then,
  });
}

function drain(model, on, then) {
  const turn = (way) => askJson(`/admin/v1/models/${encodeURIComponent(model)}/${way}`, { method: "POST" });
  const [way, back] = on ? ["drain", "undrain"] : ["undrain", "drain"];
  return act({
    title: say(way, { model }),
    says: say(`${way}_says`, { model }),
    run: () => turn(way),
    done: () => say(`${way}_done`, { model }),
    undo: () => () => turn(back),
    then,
  });
}
