// Elements, numbers and colours. Text enters the page as text nodes only.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: h("p", {class: "note"}, "text", child). Functions named on… are listeners. */
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function s(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const FOCUSABLE = "button:not(:disabled), select, input, textarea, a, summary, [tabindex]";
const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;

/** Replace the children of an element; the focus stays with what has the same name, or the same place. */
export function fill(element, ...children) {
  const held = document.activeElement;
  const place = held !== element && element.contains(held) ? [...element.querySelectorAll(FOCUSABLE)].indexOf(held) : -1;
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  if (place < 0) return element;
  const now = [...element.querySelectorAll(FOCUSABLE)];
  (now.find((one) => nameOf(one) === nameOf(held)) ?? now[Math.min(place, now.length - 1)])?.focus({preventScroll: true});
  return element;
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

/** The token as it is shown: a space has a mark of its own, the end is a word. */
export function shown(token) {
  return token === "</s>" ? "end" : token;
}

export const isEnd = (token) => token === "</s>";

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
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
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

/** True if the reader wants no motion. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** A table of text, with a caption; rows are lists of cells. */
export function table(caption, head, rows) {
  return h("table", {class: "data"}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, head.map((cell) => h("th", {scope: "col"}, cell)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, String(cell)))))));
}

/** A picture with its table: everything that is drawn can also be read. `makeTable` is called while it is open. */
export function figure(drawing, makeTable) {
  const body = h("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "The picture as a table"});
  const details = h("details", {class: "as-table", ontoggle: () => write()}, h("summary", {}, "As a table"), body);
  const write = () => details.open && fill(body, makeTable());
  new MutationObserver(write).observe(drawing, {childList: true, subtree: true});
  return h("figure", {}, drawing, details);
}

/** A button that opens two sentences and, if there is one, the formula. */
export function help(text, formula) {
  const note = h("span", {class: "help-note", hidden: true}, text, formula ? h("code", {}, formula) : null);
  const button = h("button", {class: "help", type: "button", "aria-label": "What is this?", "aria-expanded": "false", onclick: () => {
    note.hidden = !note.hidden;
    button.setAttribute("aria-expanded", String(!note.hidden));
  }}, "?");
  return h("span", {class: "help-wrap"}, button, note);
}

/** Copy a text, and say so; a page that came over plain HTTP from another machine has no clipboard of its own. */
export async function copy(text, what = "") {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const area = h("textarea", {class: "unseen", value: text});
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
