// Markdown to nodes that are safe to show. The libraries come when the first answer does.

import { Marked } from "../vendor/marked/marked.esm.js";
import { cleaned } from "./clean.js";
import { codeIn } from "./code.js";
import { mathsIn, mathsRules } from "./maths.js";

const marked = new Marked({ gfm: true, breaks: true, extensions: mathsRules, renderer: { html, image, checkbox } });
// All of HTML that an answer may use, and without attributes; the rest is shown as it was written.
const PLAIN_TAG = /&#60;(\/?(?:b|br|del|details|em|hr|i|kbd|mark|s|small|strong|sub|summary|sup|u))\s*\/?&#62;/gi;

/** The blocks of a text, each with the text it was (`raw`); they know of each other only by link references. */
export function blocks(text) {
  return marked.lexer(text);
}

/** Nodes of these blocks. `settled`: no more is coming, so that code may be coloured. */
export function rendered(tokens, settled = true) {
  const fragment = cleaned(marked.parser(tokens));
  for (const link of fragment.querySelectorAll("a")) outward(link);
  for (const table of fragment.querySelectorAll("table")) scrollable(table);
  codeIn(fragment, settled);
  mathsIn(fragment);
  return fragment;
}

function html({ text, block }) {
  const shown = escaped(text).replace(PLAIN_TAG, "<$1>");
  return block && !shown.includes("<") ? `<p>${shown}</p>` : shown;
}

// What an image's address tells its host is not the model's to decide: it is a link, and fetched by whoever follows it.
function image({ href, text }) {
  return `<a href="${escaped(href)}">🖼 ${escaped(text || href)}</a>`;
}

function checkbox({ checked }) {
  return checked ? "☑ " : "☐ ";
}

function outward(link) {
  if (!link.hasAttribute("href")) return;
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
  link.title = link.href; // where it leads, whatever its words say
}

function scrollable(table) {
  const frame = document.createElement("div");
  frame.className = "wide";
  frame.tabIndex = 0; // a keyboard scrolls it too
  table.replaceWith(frame);
  frame.append(table);
}

function escaped(text) {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
