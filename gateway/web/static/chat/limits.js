// The limits of the person who asks: what is used of them, and when they free. Told where one is near or reached.

import { askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { percent } from "../lib/format.js";
import { lasts, limitFrees, limitName, limitUse } from "../lib/limits.js";
import { say } from "./words.js";

const NEAR = 0.8;

/** Shows in `place` what is nearly used up; nothing where all is well. */
export async function showNearLimits(place) {
  const near = (await limits()).filter((one) => lasts(one) && one.used >= NEAR * one.limit);
  place.hidden = near.length === 0;
  if (place.hidden) return;
  const most = near.reduce((one, other) => (other.used / other.limit > one.used / one.limit ? other : one));
  const words =
    most.used < most.limit ? say("limit_near", { share: percent(most.used / most.limit) }) : say("limit_reached");
  fill(place, h("span", {}, [words, line(most)].join(" · ")), h("a", { href: "/usage" }, say("see_usage")));
}

/** A list of what is reached, filled when the door has said it. */
export function limitsReached() {
  const list = h("ul", { class: "limits" });
  limits().then((all) => {
    const reached = all.filter(({ used, limit }) => used >= limit);
    fill(
      list,
      reached.map((one) => h("li", {}, line(one))),
      h("li", {}, h("a", { href: "/usage" }, say("see_usage"))),
    );
  });
  return list;
}

function line(limit) {
  return [limitName(limit.name), limitUse(limit), limitFrees(limit)].filter(Boolean).join(" · ");
}

// A page works without it: it is told again with the next answer.
async function limits() {
  try {
    return (await askJson("/chat/v1/usage")).limits;
  } catch {
    return [];
  }
}
