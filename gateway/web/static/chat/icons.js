// Pictures on buttons, drawn with the text's own colour. The button says in words what it does.

import { svg } from "../lib/dom.js";

const PATHS = {
  send: "M12 19V5M5 12l7-7 7 7",
  stop: "M6 6h12v12H6z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  done: "M5 13l4 4L19 7",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M4 12a8 8 0 1 1 2.3 5.7M4 18v-5h5",
  onward: "M5 12h14M13 6l6 6-6 6",
  before: "M15 5l-7 7 7 7",
  after: "M9 5l7 7-7 7",
  down: "M12 5v14M5 12l7 7 7-7",
  open: "M6 9l6 6 6-6",
  add: "M12 5v14M5 12h14",
  menu: "M4 6h16M4 12h16M4 18h16",
  tune: "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4",
  clip: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7L9.3 17a1.7 1.7 0 0 1-2.4-2.4L14 7.5",
  template: "M5 4h14v16H5zM9 9h6M9 13h6M9 17h3",
  keys: "M9.5 9a2.5 2.5 0 1 1 3.6 2.2c-.7.4-1.1 1-1.1 1.8M12 17h.01",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  remove: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  close: "M6 6l12 12M18 6L6 18",
};

export function icon(name) {
  const shape = { viewBox: "0 0 24 24", class: `icon icon-${name}`, "aria-hidden": "true", focusable: "false" };
  return svg("svg", shape, svg("path", { d: PATHS[name] }));
}
