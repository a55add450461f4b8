// What of some HTML is harmless, as nodes. What a model wrote is hostile until it has been through here: no script, no
// style, no form, nothing that is fetched, no class that could dress an answer up as a part of the page.

import DOMPurify from "../vendor/dompurify/purify.es.mjs";

const TAGS = (
  "a b blockquote br code del details em h1 h2 h3 h4 h5 h6 hr i kbd li mark ol p pre s small span strong sub summary " +
  "sup table tbody td th thead tr u ul"
).split(" ");
const SAFE = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "title", "class", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ADD_URI_SAFE_ATTR: ["start", "align"], // they hold no address
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
// The classes that our own rules and highlight.js give.
const OWN_CLASS = /^(?:language-[\w+#.-]{1,30}|maths(?: display)?|hljs-[\w -]{1,40})$/;

DOMPurify.addHook("uponSanitizeAttribute", (node, attribute) => {
  if (attribute.attrName === "class" && !OWN_CLASS.test(attribute.attrValue)) attribute.keepAttr = false;
});

/** `html` of an answer as a fragment. */
export function cleaned(html) {
  return DOMPurify.sanitize(html, SAFE);
}
