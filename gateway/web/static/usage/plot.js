// Tokens of each day as bars, what was asked below what was answered, with the day's limit as a line where there is one.

import { svg } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { say } from "./words.js";

const WIDTH = 720;
const HEIGHT = 240;
const LEFT = 64;
const TOP = 16;
const BOTTOM = 28;
const DAYS = 31; // a month has the same width whatever its day
const FULL = 0.72; // of a day's width, the bar

/** `days`: [{day: "2026-11-30", prompt_tokens, completion_tokens}]; `limit`: tokens a day, or null. */
export function plot(days, limit) {
  const most = Math.max(...days.map(total), 1);
  // A limit far above everything would press the bars flat.
  const top = round(limit && limit < 4 * most ? Math.max(most, limit) : most);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const step = (WIDTH - LEFT) / DAYS;
  const bars = days.map((day, at) => bar(day, LEFT + at * step, step * FULL, y));
  const label = `${say("days")}: ${days.map((day) => `${day.day} ${number(total(day))}`).join(", ")}`;
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", "aria-label": label },
    [0, 0.5, 1].map((share) => grid(share * top, y)),
    bars,
    limit && limit <= top ? limitLine(limit, y) : null,
  );
}

function bar({ day, prompt_tokens: asked, completion_tokens: answered }, x, width, y) {
  const date = Number(day.slice(-2));
  const rect = (from, to, name) =>
    to > from ? svg("rect", { x, width, y: y(to), height: y(from) - y(to), class: name }) : null;
  const name = svg("title", {}, `${day}: ${number(asked)} + ${number(answered)}`);
  const labelled = date === 1 || date % 5 === 0;
  const label = svg("text", { x: x + width / 2, y: HEIGHT - 8, "text-anchor": "middle" }, String(date));
  return svg(
    "g",
    {},
    name,
    rect(0, asked, "asked"),
    rect(asked, asked + answered, "answered"),
    labelled ? label : null,
  );
}

function grid(value, y) {
  return [
    svg("line", { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value), class: "grid" }),
    svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)),
  ];
}

function limitLine(limit, y) {
  return [
    svg("line", { x1: LEFT, x2: WIDTH, y1: y(limit), y2: y(limit), class: "limit" }),
    svg("text", { x: WIDTH - 4, y: y(limit) - 5, "text-anchor": "end", class: "limit" }, say("daily_limit")),
  ];
}

export function total({ prompt_tokens: asked, completion_tokens: answered }) {
  return asked + answered;
}

// Up to a figure that reads well: 1, 2 or 5 with noughts.
function round(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((times) => times * unit).find((figure) => figure >= value);
}
