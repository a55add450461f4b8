// Who is here, how quickly they are served, and how each engine is: now and in the last minutes.

import { askJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { duration, moment, number, percent, rounded } from "../lib/format.js";
import { alertList } from "./alerts.js";
import { backendColumns } from "./backend_state.js";
import { line } from "./charts.js";
import { everySeconds } from "./live.js";
import { subjectLink, table } from "./table.js";
import { say as common } from "./words/frame.js";
import { say } from "./words/live.js";

const SECONDS = 3;
const ALERT_SECONDS = 10; // what lasts no longer needs nobody
const MOST_SUBJECTS = 20;

export async function show(here) {
  const { data } = await askJson("/admin/v1/settings", { signal: here.signal });
  const target = Object.fromEntries(data.map(({ name, value }) => [name, value]));
  const alerts = h("div", {});
  const figures = h("div", { class: "page-body" });
  here.place.append(alerts, figures);
  await everySeconds(here, ALERT_SECONDS, alerts, async () =>
    alertList((await askJson("/admin/v1/alerts", { signal: here.signal })).data),
  );
  await everySeconds(here, SECONDS, figures, async () => {
    const paths = [`activity?limit=${MOST_SUBJECTS}`, "queue?limit=1", "backends"];
    const [activity, queue, backends] = await Promise.all(
      paths.map((path) => askJson(`/admin/v1/${path}`, { signal: here.signal })),
    );
    return page(activity, queue, backends.data, target);
  });
}

function page(activity, queue, backends, target) {
  return [
    h("div", { class: "tiles" }, tiles(activity, queue, target)),
    h("section", { class: "card" }, h("h2", {}, say("last_minutes")), minutes(activity.history)),
    section("backends", table(common("backends"), backendColumns(activity.backends), backends).element),
    section("by_model", table(say("by_model"), modelColumns, activity.models).element),
    section("by_subject", table(say("by_subject"), subjectColumns, activity.subjects, say("nobody")).element),
    failures(activity.failures),
    h("p", { class: "soft" }, say("alone", { count: number(activity.gateways), at: time(activity.at) })),
  ];
}

function section(title, ...content) {
  return h("section", { class: "card" }, h("h2", {}, title === "backends" ? common(title) : say(title)), content);
}

function tiles({ total, subjects, has_more: more }, { lines }, target) {
  const people = subjects.filter(isPerson).length;
  const counts = lines.flatMap((one) => Object.values(one.classes));
  const sum = (what) => number(counts.reduce((whole, one) => whole + one[what], 0));
  const speed = { median: tokensPerSecond(total.tpot_p50), slow: tokensPerSecond(total.tpot_p95) };
  const wanted = target.target_tokens_per_second;
  return [
    tile(
      "people_now",
      `${number(people)}${more ? "+" : ""}`,
      say("programs_now", { count: number(subjects.length - people) }),
    ),
    tile("running", sum("running")),
    tile("waiting", sum("waiting")),
    tile(
      "ttft",
      seconds(total.ttft_p95),
      say("ttft_target", { median: seconds(total.ttft_p50), target: duration(target.target_ttft_seconds) }),
      total.ttft_p95 === null ? null : total.ttft_p95 <= target.target_ttft_seconds,
    ),
    tile(
      "speed",
      speed.median === null ? common("nothing") : say("speed_value", { count: rounded(speed.median) }),
      say("speed_target", {
        slow: speed.slow === null ? common("nothing") : rounded(speed.slow),
        target: rounded(wanted),
      }),
      speed.median === null ? null : speed.median >= wanted,
    ),
    tile("goodput", total.goodput === null ? common("nothing") : percent(total.goodput), say("goodput_words")),
    tile("requests", number(total.requests), say("requests_words", { failed: number(total.failed) })),
  ];
}

/** met: whether it is as good as it should be; null: nobody can say. */
function tile(title, value, detail, met = null) {
  const state = met === null ? "value" : met ? "value good" : "value bad";
  const sign = met === null ? null : met ? "\u00a0✓" : "\u00a0✗";
  return h(
    "div",
    { class: "card tile" },
    h("h2", {}, say(title)),
    h("p", { class: state }, value, sign),
    detail && h("p", { class: "soft" }, detail),
  );
}

function minutes({ completion_tokens_per_second: completion, prompt_tokens_per_second: prompt }) {
  return h(
    "div",
    { class: "pair" },
    [
      ["completion_line", completion, "series-1"],
      ["prompt_line", prompt, "series-3"],
    ].map(([words, values, name]) => {
      const said = say(words, { now: number(values.at(-1) ?? 0), most: number(Math.max(0, ...values)) });
      return h("figure", {}, line(values, said, name), h("figcaption", { class: "soft" }, said));
    }),
  );
}

function failures(by_code) {
  const codes = Object.entries(by_code).sort(([, one], [, other]) => other - one);
  if (!codes.length) return null;
  const columns = [
    { title: say("code"), cell: ([code]) => h("code", {}, code) },
    { title: say("requests"), cell: ([, count]) => number(count), number: true },
  ];
  return section("failures", table(say("failures"), columns, codes).element);
}

const modelColumns = [
  { title: common("model"), cell: (row) => row.id },
  { title: say("requests"), cell: (row) => number(row.requests), number: true },
  { title: say("failed"), cell: (row) => number(row.failed), number: true },
  { title: say("ttft_short"), cell: (row) => seconds(row.ttft_p95), number: true },
  { title: say("each_short"), cell: (row) => perSecond(tokensPerSecond(row.tpot_p50)), number: true },
  { title: say("whole_short"), cell: (row) => perSecond(row.completion_tokens_per_second), number: true },
  { title: say("cached"), cell: cachedShare, number: true },
  { title: say("goodput"), cell: (row) => (row.goodput === null ? null : percent(row.goodput)), number: true },
];

const subjectColumns = [
  { title: say("subject"), cell: (row) => subjectLink(row.id, row.name) },
  { title: say("minute"), cell: (row) => number(row.prompt_tokens + row.completion_tokens), number: true },
  { title: say("whole_short"), cell: (row) => perSecond(row.completion_tokens_per_second), number: true },
  { title: say("today"), cell: (row) => number(row.prompt_tokens_today + row.completion_tokens_today), number: true },
];

function isPerson({ id }) {
  return id.startsWith("usr_") || id.includes("/");
}

function cachedShare({ counted_prompt_tokens: counted, cached_tokens: cached }) {
  return counted ? percent(cached / counted) : null;
}

function tokensPerSecond(secondsEach) {
  return secondsEach ? 1 / secondsEach : null;
}

function perSecond(count) {
  return count === null ? null : say("speed_value", { count: rounded(count) });
}

function seconds(value) {
  return value === null ? common("nothing") : duration(value);
}

function time(at) {
  return moment(at, { timeStyle: "medium" });
}
