// Elements, numbers and colours. Text enters the page as text nodes only.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: h("p.note", {title: "more"}, "text", child). Attributes may be left out; functions named on… are listeners. */
export const h = (selector, ...rest) => made((name) => document.createElement(name), selector, rest);

/** An SVG element. */
export const s = (selector, ...rest) => made((name) => document.createElementNS(SVG, name), selector, rest);

function made(create, selector, rest) {
  const [tag, ...classes] = selector.split(".");
  const element = create(tag);
  element.classList.add(...classes.filter(Boolean));
  if (tag === "button") element.type = "button";
  const attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (isNothing(value)) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...nodes(rest));
  return element;
}

export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

const isNothing = (value) => value === null || value === undefined || value === false;
const nodes = (children) => children.flat(Infinity).filter((child) => !isNothing(child));

/** A picture in SVG with a name for screen readers. */
export function svg(selector, width, height, label, ...children) {
  return s(`svg.${selector}`, {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label}, children);
}

export const rect = (x, y, width, height, attributes, ...children) => s("rect", {x, y, width, height, ...attributes}, children);

export const text = (classes, x, y, ...children) => s(`text.${classes}`, {x, y}, children);

/** A button that shows a sign instead of its name. */
export const tool = (name, sign, onclick) => h("button", {"aria-label": name, title: name, onclick}, sign);

/** A button that looks like a link. */
export const link = (text, onclick) => h("button.plain", {onclick}, text);

/** A button that is pressed or not. */
export const choice = (text, pressed, onclick) => h("button", {"aria-pressed": String(pressed), onclick}, text);

/** A list to choose one of [value, text]. */
export const select = (attributes, options) => h("select", attributes, options.map(([value, text = value]) => h("option", {value}, text)));

const FOCUSABLE = "button:not(:disabled), select, input, textarea, a, summary, [tabindex]";
const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;

/** Replace the children of an element; the focus stays with what has the same name, or the same place. */
export function fill(element, ...children) {
  const held = document.activeElement;
  const place = held !== element && element.contains(held) ? [...element.querySelectorAll(FOCUSABLE)].indexOf(held) : -1;
  element.replaceChildren(...nodes(children));
  if (place < 0) return;
  const now = [...element.querySelectorAll(FOCUSABLE)];
  (now.find((one) => nameOf(one) === nameOf(held)) ?? now[Math.min(place, now.length - 1)])?.focus({preventScroll: true});
}

/** A number with two digits after the point and a real minus sign; −∞ for null. */
export function number(value, digits = 2) {
  if (value === null || value === undefined) return "−∞";
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** A probability: 0.87, and ‹0.01 where two digits would say 0. */
export function probability(value) {
  return value > 0 && value < 0.005 ? "<0.01" : value > 0.995 && value < 1 ? ">0.99" : value.toFixed(2);
}

export const isEnd = (token) => token === "</s>";

/** The token as it is shown: the end is a word. */
export const shown = (token) => (isEnd(token) ? "end" : token);

/** The colours of curves and of labels. */
export const COLOURS = ["accent", "warn", "third", "fourth", "fifth", "ink-3"].map((name) => `var(--${name})`);

export const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

// Steps of one colour that are even to the eye, from the ground to the darkest (light) or brightest (dark).
const HEAT = {
  light: [[255, 255, 255], [207, 227, 241], [127, 181, 216], [47, 126, 182], [18, 63, 107]],
  dark: [[16, 20, 24], [20, 52, 79], [30, 98, 148], [83, 163, 217], [214, 236, 250]],
};
const BELOW = {
  light: [[255, 255, 255], [243, 197, 172], [217, 98, 43], [143, 59, 27]],
  dark: [[16, 20, 24], [84, 42, 22], [176, 84, 40], [247, 176, 136]],
};

export const theme = () => document.documentElement.dataset.theme;

function mixed(stops, share) {
  const place = clamp(share, 0, 1) * (stops.length - 1);
  const first = Math.min(Math.floor(place), stops.length - 2);
  const rgb = stops[first].map((from, channel) => from + (place - first) * (stops[first + 1][channel] - from));
  return `rgb(${rgb.map(Math.round).join(" ")})`;
}

/** The tint of a share from 0 to 1. */
export const heat = (share) => mixed(HEAT[theme()], share);

/** The tint of a value from −1 to 1; 0 is the ground. */
export const signed = (value) => mixed((value < 0 ? BELOW : HEAT)[theme()], Math.abs(value));

const pen = document.createElement("canvas").getContext("2d");

const widths = new Map(); // of texts that were measured

/** The width of a text in pixels. */
export function textWidth(text, size = 14, weight = 400) {
  const key = `${weight} ${size} ${text}`;
  if (widths.has(key)) return widths.get(key);
  if (widths.size > 5000) widths.clear();
  pen.font = `${weight} ${size}px system-ui, sans-serif`;
  widths.set(key, pen.measureText(text).width);
  return widths.get(key);
}

/** The text, cut to a width in pixels. */
export function cut(text, width, size = 14) {
  if (textWidth(text, size) <= width) return text;
  let kept = text.length;
  while (kept > 1 && textWidth(`${text.slice(0, kept)}…`, size) > width) kept -= 1;
  return `${text.slice(0, kept)}…`;
}

/** The parts of a text in SVG that is cut to a width; the pointer shows the whole. */
export const shortened = (whole, width, size) => [cut(whole, width, size), s("title", whole)];

/** True if the reader wants no motion. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** A table with a caption; rows are lists of cells: texts, or elements of a table. */
export function table(caption, head, rows) {
  return h("table.data", caption && h("caption", caption),
    h("thead", h("tr", head.map((cell) => h("th", {scope: "col"}, cell)))),
    h("tbody", rows.map((row) => h("tr", row.map((cell) => (cell instanceof Element ? cell : h("td", String(cell))))))));
}

/** A picture with its table: everything that is drawn can also be read. `makeTable` is called while it is open. */
export function figure(drawing, makeTable) {
  const body = scroller("The picture as a table");
  const details = h("details.as-table", {ontoggle: () => write()}, h("summary", "As a table"), body);
  const write = () => details.open && fill(body, makeTable() ?? "Nothing is drawn.");
  new MutationObserver(write).observe(drawing, {childList: true, subtree: true});
  return h("figure", drawing, details);
}

/** A part that scrolls, also by keys. */
export const scroller = (label, ...children) => h("div.scroll", {tabindex: 0, role: "region", "aria-label": label}, children);

/** A button that opens two sentences and, if there is one, the formula. */
export function help(text, formula) {
  const note = h("span.help-note", {hidden: true}, text, formula ? h("code", formula) : null);
  const button = h("button.help", {"aria-label": "What is this?", "aria-expanded": "false", onclick: () => {
    note.hidden = !note.hidden;
    button.setAttribute("aria-expanded", String(!note.hidden));
  }}, "?");
  return h("span.help-wrap", button, note);
}

/** Copy a text, and say so; a page that came over plain HTTP from another machine has no clipboard of its own. */
export async function copy(text, what = "") {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const area = h("textarea.unseen", {value: text});
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`${what}copied`);
}

/** A message for screen readers. */
export function say(text) {
  document.getElementById("said").textContent = text;
}
