// Elements from plain calls. Text is always text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * h("button", {class: "quiet", onclick: go, disabled: true}, "Go", icon): an element.
 * Props: on<event> listens; class, dataset and style (an object of CSS properties) as they are called; a property of
 * the element is set, anything else is an attribute; null and undefined leave it out, and false, but for what is true
 * or false of the element itself.
 * Children: nodes, text, arrays of these; null, undefined and false are left out.
 */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for an element of SVG, whose props are all attributes. */
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

/** Puts these children into an element in the place of those that it has. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false ? typeof element[name] === "boolean" : value !== null && value !== undefined)
      set(element, name, value);
  }
  element.append(...nodes(children));
  // A select takes its value only when its options are there.
  if (element instanceof HTMLSelectElement && props?.value !== undefined) element.value = props.value;
  return element;
}

function set(element, name, value) {
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "class") element.setAttribute("class", value);
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "style")
    for (const [property, to] of Object.entries(value)) element.style.setProperty(property, to);
  else if (name in element && !(element instanceof SVGElement) && !name.includes("-"))
    setProperty(element, name, value);
  else element.setAttribute(name, value === true ? "" : value);
}

function setProperty(element, name, value) {
  // innerHTML and its like stay out of reach, also where a caller hands on what it was given.
  if (/html$/i.test(name) || name === "srcdoc") throw new Error(`${name} is not set here`);
  try {
    element[name] = value;
  } catch {
    element.setAttribute(name, value); // read-only as a property: list, form ...
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(child)));
}
