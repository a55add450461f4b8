// Formulas: $…$, $$…$$, \(…\) and \[…\]. KaTeX comes when the first one does, and builds nodes: it sets styles through
// the CSSOM, which a policy without unsafe-inline allows, where styles in HTML would be refused.

const KATEX = new URL("../vendor/katex/katex.mjs", import.meta.url);
const SHEET = new URL("../vendor/katex/katex.min.css", import.meta.url);
// A formula is a model's words too: bounded in size and in what its macros expand to, and it may load or link nothing.
const BOUNDS = { throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 200 };
const LONGEST = 4000;

// A dollar is money more often than maths: it opens only before, and closes only behind, something that is no space,
// and no digit follows it.
const INLINE = /^(?:\$(?!\s|\$)((?:\\[\s\S]|[^\\$\n])+?)(?<!\s)\$(?!\d)|\\\(([\s\S]+?)\\\))/;
const DISPLAY = /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])/;
const BLOCK = new RegExp(`${DISPLAY.source}[ \\t]*(?:\\n|$)`);

export const mathsRules = [
  rule("mathsBlock", "block", BLOCK, /\n(?:\$\$|\\\[)/, true),
  rule("mathsDisplay", "inline", DISPLAY, /\$\$|\\\[/, true),
  rule("maths", "inline", INLINE, /\$|\\\(/, false),
];

let katex = null;
let coming = null;

/** Sets the formulas among these nodes; those that cannot be set stay as they were written. */
export function mathsIn(fragment) {
  const places = [...fragment.querySelectorAll(".maths")];
  if (places.length === 0) return;
  if (katex) places.forEach(set);
  else
    load().then(
      () => places.forEach(set),
      () => {},
    );
}

function set(place) {
  const source = place.textContent;
  if (source.length > LONGEST) return;
  const formula = document.createElement("span");
  try {
    katex.render(source, formula, { ...BOUNDS, displayMode: place.classList.contains("display") });
    place.replaceChildren(formula);
  } catch {
    place.classList.add("unset");
  }
}

function load() {
  coming ??= import(KATEX).then((module) => {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = SHEET;
    document.head.append(sheet);
    katex = module.default;
  });
  return coming;
}

// `opens`: where one may begin, so that what stands before it ends there.
function rule(name, level, pattern, opens, display) {
  return {
    name,
    level,
    start: (text) => opens.exec(text)?.index,
    tokenizer(text) {
      const found = pattern.exec(text);
      return found ? { type: name, raw: found[0], formula: found[1] ?? found[2] } : undefined;
    },
    renderer: ({ formula }) => {
      const words = formula.trim().replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
      return display ? `<span class="maths display">${words}</span>` : `<span class="maths">${words}</span>`;
    },
  };
}
