// Small charts as SVG: lines over the last minutes, columns of days, bars of shares. Colours are the sheet's classes.

import { svg } from "../lib/dom.js";

const WIDTH = 300;
const HEIGHT = 60;
const FEWEST_COLUMNS = 7; // few are no wider than these

/** values: the oldest first. label: what it shows, for those who do not see it. */
export function line(values, label, name = "series-1") {
  const most = Math.max(1, ...values);
  const step = WIDTH / Math.max(values.length - 1, 1);
  const points = values.map((value, place) => `${(place * step).toFixed(1)},${height(value, most).toFixed(1)}`);
  const area = `0,${HEIGHT} ${points.join(" ")} ${((values.length - 1) * step).toFixed(1)},${HEIGHT}`;
  return chart(
    label,
    svg("polygon", { class: `area ${name}`, points: area }),
    svg("polyline", { class: `stroke ${name}`, points: points.join(" ") }),
  );
}

/** values: one a column, from the left. */
export function columns(values, label) {
  const most = Math.max(1, ...values);
  const wide = WIDTH / Math.max(values.length, FEWEST_COLUMNS);
  return chart(
    label,
    values.map((value, place) => {
      const top = height(value, most);
      const x = place * wide + wide * 0.1;
      return svg("rect", { class: "series-1", x, y: top, width: wide * 0.8, height: HEIGHT - top });
    }),
  );
}

/** A share of 1; past `warn` it says so by its colour. */
export function gauge(share, label, warn = 0.9) {
  const width = Math.min(Math.max(share, 0), 1) * 100;
  return svg(
    "svg",
    { class: "gauge", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: share > warn ? "series-2" : "series-1", width, height: 8 }),
  );
}

function height(value, most) {
  return HEIGHT - 2 - (value / most) * (HEIGHT - 4);
}

function chart(label, ...parts) {
  const props = { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" };
  return svg("svg", { ...props, "aria-label": label }, parts);
}
