// Bars of parts, as SVG: widths are shares, colours are the sheet's classes.

import { h, svg } from "../lib/dom.js";

const WIDTH = 1000;
const HEIGHT = 24;

/** parts: [[class, size], ...] of `whole`. label: what it shows, for those who do not see it. */
export function bar(parts, whole, label) {
  let at = 0;
  const pieces = parts.map(([name, size]) => {
    const width = whole > 0 ? (Math.max(size, 0) / whole) * WIDTH : 0;
    const piece = svg("rect", { class: name, x: at, y: 0, width, height: HEIGHT });
    at += width;
    return piece;
  });
  return svg(
    "svg",
    { class: "bar", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    pieces,
  );
}

/** entries: [[class, text], ...] */
export function legend(entries) {
  return h(
    "p",
    { class: "legend" },
    entries.map(([name, text]) =>
      h(
        "span",
        {},
        svg(
          "svg",
          { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" },
          svg("rect", { class: name, width: 10, height: 10 }),
        ),
        text,
      ),
    ),
  );
}
