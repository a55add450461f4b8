// What differs between two states of one thing, for a question and for the trail.

import { h } from "../lib/dom.js";
import { say } from "./words/frame.js";

/** [[field, before, after], ...] of two objects; null stands for one that is not there. */
export function differences(before, after) {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  return [...names]
    .map((name) => [name, before?.[name] ?? null, after?.[name] ?? null])
    .filter(([, one, other]) => JSON.stringify(one) !== JSON.stringify(other));
}

export function differenceList(before, after) {
  const items = differences(before, after).map(([name, one, other]) =>
    h("li", {}, h("code", {}, name), ` ${[before && shown(one), after && shown(other)].filter(Boolean).join(" → ")}`),
  );
  return items.length ? h("ul", { class: "changes" }, items) : null;
}

export function shown(value) {
  if (value === null || value === undefined || value === "") return say("nothing");
  if (typeof value === "boolean") return say(value ? "yes" : "no");
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.join(", ") || say("nothing");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
