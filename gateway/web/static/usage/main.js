// One's own usage: tokens today and this month, and what is left of each limit.

import { askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { number, percent } from "../lib/format.js";
import { showHeader } from "../lib/header.js";
import { limitFrees, limitName, limitUse } from "../lib/limits.js";
import { plot, total } from "./plot.js";
import { say } from "./words.js";

const NEAR = 0.8;
const place = document.getElementById("main");

showHeader();
show().catch((fault) =>
  fill(
    place,
    h("h1", {}, say("title")),
    h("p", { class: "notice bad", role: "alert" }, `${say("failed")} ${fault.message}`),
  ),
);
// What was asked in another tab meanwhile is seen when one comes back.
document.addEventListener("visibilitychange", () => document.hidden || show().catch(() => {}));

async function show() {
  const { days, limits } = await askJson("/chat/v1/usage");
  const ofDay = limits.find(({ name }) => name === "tokens_per_day")?.limit ?? null;
  fill(
    place,
    h("h1", {}, say("title")),
    h("div", { class: "sums" }, sum(say("today"), days.slice(-1)), sum(say("month"), days)),
    h("h2", {}, say("limits")),
    limits.length
      ? h("ul", { class: "limit-list" }, limits.map(limitItem))
      : h("p", { class: "soft" }, say("no_limits")),
    h("h2", {}, say("days")),
    h(
      "div",
      { class: "card" },
      legend(),
      plot(days, ofDay),
      h("details", {}, h("summary", {}, say("as_table")), table(days)),
    ),
    h("p", { class: "soft foot" }, say("utc")),
  );
}

function sum(title, days) {
  const tokens = days.reduce((all, day) => all + total(day), 0);
  const requests = days.reduce((all, day) => all + day.requests, 0);
  return h(
    "div",
    { class: "card" },
    h("p", { class: "soft" }, title),
    h("p", { class: "figure" }, say("tokens", { count: number(tokens) })),
    h("p", { class: "soft" }, say("requests", { count: number(requests) })),
  );
}

function limitItem(limit) {
  const share = limit.limit > 0 ? Math.min(limit.used / limit.limit, 1) : 1;
  const state = share >= 1 ? "bad" : share >= NEAR ? "warn" : "";
  const facts = [
    limitUse(limit),
    share >= 1 ? say("reached") : percent(share),
    limitFrees(limit),
    limit.shared ? say("shared") : "",
    say("models_of", { models: limit.models.join(", ") }),
  ];
  const name = limitName(limit.name);
  return h(
    "li",
    { class: "card" },
    h("strong", {}, name),
    h("meter", { "aria-label": name, class: state, min: 0, max: 1, value: share }),
    h("span", { class: `soft ${state}` }, facts.filter(Boolean).join(" · ")),
  );
}

function legend() {
  const entry = (name) => h("span", {}, h("span", { class: `swatch ${name}` }), say(name));
  return h("p", { class: "soft legend" }, entry("input"), entry("output"));
}

function table(days) {
  const head = [say("day"), say("requests_head"), say("input"), say("output")];
  const rows = days.map((day) => [
    day.day,
    number(day.requests),
    number(day.prompt_tokens),
    number(day.completion_tokens),
  ]);
  const cell = (tag) => (text, at) => h(tag, { class: at ? "number" : "" }, text);
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, head.map(cell("th")))),
    h(
      "tbody",
      {},
      rows.map((row) => h("tr", {}, row.map(cell("td")))),
    ),
  );
}
