// The map: sentences as points; those that the encoder reads alike lie close together.

import {ApiError, post} from "./api.js";
import {FILES, readFile} from "./question.js";
import {cut, figure, fill, h, number, s, table, textWidth} from "./dom.js";
import {named} from "./search.js";
import {change, enter, facts, state} from "./store.js";

const [HEIGHT, EDGE] = [560, 40];
let WIDTH = 1080; // as wide as the page when the map is drawn, so that its text is not made smaller
const COLOURS = ["var(--accent)", "var(--warn)", "var(--third)", "var(--fourth)", "var(--fifth)", "var(--ink-3)"];

export class SentenceMap {
  constructor() {
    this.lines = h("textarea", {rows: 5, class: "map-lines", spellcheck: "false", "aria-label": "Sentences, one a line; a label may follow after a tab", placeholder: "One sentence a line; a label may follow after a tab"});
    this.picker = h("input", {type: "file", multiple: true, "aria-label": "Files, a point for each", onchange: () => this.ask()}); // of a model that reads files
    this.drawing = h("div", {class: "map-drawing"});
    this.reading = h("p", {class: "pointed-line", role: "status"});
    this.list = h("div", {class: "map-list"});
    this.problem = h("p", {class: "quiet"});
    const tool = (name, text, onclick) => h("button", {type: "button", "aria-label": name, title: name, onclick}, text);
    this.element = h("div", {class: "map-view"}, this.lines, this.picker,
      h("div", {class: "controls"}, h("button", {type: "button", class: "primary", onclick: () => this.ask()}, "Draw the map"), tool("Smaller", "−", () => this.zoomBy(1 / 1.4)), tool("Larger", "+", () => this.zoomBy(1.4)), tool("All", "all", () => this.zoomBy(0)),
        h("span", {class: "quiet"}, "Drag over points to list them; click one to have it answered.")),
      this.problem, figure(this.drawing, () => this.table()), this.reading, this.list);
    this.zoom = {scale: 1, x: WIDTH / 2, y: HEIGHT / 2};
  }

  update(changed) {
    if (!this.lines.value && (changed.has("view") || changed.has("models"))) this.lines.value = (facts()?.examples ?? []).join("\n");
    const [{kind} = {kind: "text"}, second] = facts()?.sources ?? [];
    this.kind = kind;
    this.lines.hidden = kind !== "text" || Boolean(second);
    this.picker.hidden = kind === "text" || Boolean(second);
    this.picker.accept = FILES[kind]?.[1] ?? "";
    if (changed.has("model") && this.lines.hidden) {
      [this.picker.value, this.points] = ["", null];
      fill(this.drawing);
    }
    fill(this.problem, second ? "The map shows the inputs of models with one source." : "");
    if (changed.has("theme") && this.points) this.draw();
    if (changed.has("model") && this.points) this.ask();
  }

  async ask() {
    const files = this.kind === "text" ? null : await Promise.all([...this.picker.files].map((file) => readFile(this.kind, file)));
    const rows = this.lines.value.split("\n").filter((line) => line.trim()).map((line) => line.split("\t"));
    this.rows = files ? files.map((file) => ({text: file.title, label: "", file})) : rows.map(([text, label = ""]) => ({text, label}));
    if (this.rows.length < 3) return fill(this.problem, files ? "Choose at least three files." : "Give at least three sentences, one a line.");
    try {
      const found = await post("/v1/map", {inputs: this.rows.map(({text, file}) => file?.base64 ?? text), ...named(state.model)});
      this.points = found.points;
      WIDTH = Math.max(300, Math.min(1080, document.getElementById("view").clientWidth));
      this.shares = found.shares;
      fill(this.problem, found.flags?.join(" ") ?? "");
      this.zoom = {scale: 1, x: WIDTH / 2, y: HEIGHT / 2};
      this.draw();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(this.problem, error.message);
    }
    return undefined;
  }

  /** Points in the picture: both axes on one scale, as in the space of the vectors. */
  placed() {
    const real = this.points.filter(Boolean);
    const [low, high] = [0, 1].map((axis) => real.map((point) => point[axis])).map((values) => [Math.min(...values), Math.max(...values)]).reduce(([a, b], [c, d]) => [[...a, c], [...b, d]], [[], []]);
    const scale = Math.min((WIDTH - 2 * EDGE) / Math.max(1e-9, high[0] - low[0]), (HEIGHT - 2 * EDGE) / Math.max(1e-9, high[1] - low[1])) * this.zoom.scale;
    return this.points.map((point) => point && [WIDTH / 2 + (point[0] - (low[0] + high[0]) / 2) * scale + (WIDTH / 2 - this.zoom.x) * this.zoom.scale, HEIGHT / 2 - (point[1] - (low[1] + high[1]) / 2) * scale + (HEIGHT / 2 - this.zoom.y) * this.zoom.scale]);
  }

  draw() {
    const labels = [...new Set(this.rows.map(({label}) => label))].filter(Boolean);
    const colour = (label) => COLOURS[Math.max(0, labels.indexOf(label)) % COLOURS.length];
    const places = this.placed();
    const taken = places.filter(Boolean).map(([x, y]) => [x - 6, y - 6, x + 6, y + 6]); // by points and captions
    const points = places.map((at, index) => at && s("g", {class: "point", role: "button", tabindex: 0, "aria-label": this.rows[index].text, "data-index": index,
      onclick: () => this.answer(index), onpointerenter: () => fill(this.reading, this.rows[index].text), onfocus: () => fill(this.reading, this.rows[index].text), onkeydown: (event) => event.key === "Enter" && this.answer(index)},
    s("circle", {cx: at[0], cy: at[1], r: 6, fill: colour(this.rows[index].label)}), caption(this.rows[index].text, at, taken)));
    const legend = labels.map((label, index) => s("g", {transform: `translate(12 ${20 + 20 * index})`}, s("circle", {cx: 0, cy: -4, r: 5, fill: colour(label)}), s("text", {x: 12, y: 0, class: "start"}, label)));
    this.brush = s("rect", {class: "brush", visibility: "hidden"});
    const svg = s("svg", {class: "map", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "Sentences as points", onpointerdown: (event) => this.begin(event), onpointermove: (event) => this.drag(event), onpointerup: (event) => this.end(event), onwheel: (event) => this.wheel(event)},
      s("rect", {width: WIDTH, height: HEIGHT, class: "sheet-ground"}), points, legend, this.brush,
      s("text", {x: WIDTH - 12, y: HEIGHT - 12, class: "small end"}, `the plane holds ${number(100 * (this.shares[0] + this.shares[1]), 0)} % of the variance`));
    fill(this.drawing, svg);
  }

  zoomBy(factor) {
    this.zoom = factor ? {...this.zoom, scale: Math.min(40, Math.max(1, this.zoom.scale * factor))} : {scale: 1, x: WIDTH / 2, y: HEIGHT / 2};
    if (this.points) this.draw();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const [x, y] = this.inPicture(event);
    const {scale} = this.zoom;
    this.zoom = {...this.zoom, x: this.zoom.x + (x - WIDTH / 2) / scale * 0.3, y: this.zoom.y + (y - HEIGHT / 2) / scale * 0.3};
    this.zoomBy(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }

  inPicture(event) {
    const box = this.drawing.firstElementChild.getBoundingClientRect();
    return [((event.clientX - box.left) * WIDTH) / box.width, ((event.clientY - box.top) * HEIGHT) / box.height];
  }

  begin(event) {
    this.from = event.target.closest(".point") ? null : this.inPicture(event);
  }

  drag(event) {
    if (!this.from || !event.buttons) return;
    const to = this.inPicture(event);
    const [x, y] = [0, 1].map((axis) => Math.min(this.from[axis], to[axis]));
    for (const [name, value] of Object.entries({x, y, width: Math.abs(to[0] - this.from[0]), height: Math.abs(to[1] - this.from[1]), visibility: "visible"})) this.brush.setAttribute(name, value);
  }

  end(event) {
    if (!this.from) return;
    const to = this.inPicture(event);
    const inside = (at) => at && [0, 1].every((axis) => at[axis] >= Math.min(this.from[axis], to[axis]) && at[axis] <= Math.max(this.from[axis], to[axis]));
    const chosen = this.placed().flatMap((at, index) => (inside(at) ? [index] : []));
    this.from = null;
    this.brush.setAttribute("visibility", "hidden");
    fill(this.list, chosen.length ? [h("h3", {}, `${chosen.length} chosen`), h("ul", {}, chosen.map((index) => h("li", {}, h("button", {type: "button", class: "plain", onclick: () => this.answer(index)}, this.rows[index].text))))] : null);
  }

  /** Answer a sentence: it becomes the input of all views. */
  answer(index) {
    const [name] = Object.keys(state.inputs);
    const {text, file} = this.rows[index];
    enter(file ? {files: {[facts().sources[0].name]: file}} : {inputs: {...state.inputs, [name]: text}});
    change({view: "answer"});
  }

  table() {
    if (!this.points) return h("p", {}, "Nothing is drawn.");
    return table("Sentences and their places", ["sentence", "label", "x", "y"], this.rows.map(({text, label}, index) => [text, label, ...(this.points[index] ?? [0, 0]).map((value) => number(value))]));
  }

  picture() {
    return this.drawing.querySelector("svg");
  }

  data() {
    return this.points && {model: state.model, shares: this.shares, points: this.rows.map(({text, label}, index) => ({text, label, point: this.points[index]}))};
  }
}

/** The sentence beside its point, where there is room. */
function caption(text, [x, y], taken) {
  const short = cut(text, 170, 12);
  const width = textWidth(short, 12);
  for (const [left, dy] of [[x + 10, 4], [x - 10 - width, 4], [x - width / 2, -10], [x - width / 2, 20]]) {
    const box = [left, y + dy - 11, left + width, y + dy + 3];
    if (box[0] < 4 || box[2] > WIDTH - 4 || taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    return s("text", {x: left, y: y + dy, class: "start small"}, short);
  }
  return null;
}
