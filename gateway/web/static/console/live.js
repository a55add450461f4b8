// Pages that show what goes on now: asked again while they are looked at.

import { fill } from "../lib/dom.js";
import { problem } from "./problem.js";

/**
 * Shows what look() gives in `place`, now and every so many seconds, as long as the page stands there and is visible.
 * Faults are told there too. Resolves to what looks again at once.
 */
export async function everySeconds(here, seconds, place, look) {
  let under = false;
  const once = async () => {
    if (under || here.signal.aborted || document.visibilityState !== "visible") return;
    under = true;
    try {
      refill(place, await look());
    } catch (fault) {
      if (fault.name === "AbortError") return;
      fill(place, problem(fault));
      if (fault.name !== "ApiError") throw fault;
    } finally {
      under = false;
    }
  };
  const timer = setInterval(once, seconds * 1000);
  const seen = () => once();
  document.addEventListener("visibilitychange", seen);
  here.signal.addEventListener("abort", () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", seen);
  });
  await once();
  return once;
}

/** fill(), but whoever works by keyboard stays where they are, and wide tables do not jump back. */
function refill(element, ...children) {
  const focused = element.contains(document.activeElement)
    ? [...focusable(element)].indexOf(document.activeElement)
    : -1;
  const scrolled = [...element.querySelectorAll(".scrolls")].map((region) => region.scrollLeft);
  fill(element, ...children);
  element.querySelectorAll(".scrolls").forEach((region, place) => (region.scrollLeft = scrolled[place] ?? 0));
  if (focused >= 0) focusable(element)[focused]?.focus({ preventScroll: true });
}

function focusable(element) {
  return element.querySelectorAll("a[href], button, select, input, [tabindex='0']");
}
