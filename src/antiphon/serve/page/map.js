// The map: sentences as points; those that the encoder reads alike lie close together.

import {messageOf, post} from "./api.js";
import {COLOURS, clamp, cut, figure, fill, h, link, number, rect, s, setAttributes, svg, table, text, textWidth, tool} from "./dom.js";
import {FILES, readFile} from "./question.js";
import {named} from "./search.js";
import {enter, facts, state} from "./store.js";

const [HEIGHT, EDGE] = [560, 40];
let WIDTH = 1080; // as wide as the page when the map is drawn, so that its text is not made smaller
const whole = () => ({scale: 1, x: WIDTH / 2, y: HEIGHT / 2});
const INPUT = "One sentence a line; a label may follow after a tab";

export class SentenceMap {
  constructor() {
    this.lines = h("textarea.map-lines", {rows: 5, spellcheck: "false", "aria-label": INPUT, placeholder: INPUT});
    this.picker = h("input", {type: "file", multiple: true, "aria-label": "Files, a point for each", onchange: () => this.ask()}); // of a model that reads files
    this.drawing = h("div.map-drawing");
    this.reading = h("p.pointed-line", {role: "status"});
    this.list = h("div.map-list");
    this.problem = h("p.quiet");
    this.element = h("div.map-view", this.lines, this.picker,
      h("div.controls", h("button.primary", {onclick: () => this.ask()}, "Draw the map"), tool("Smaller", "−", () => this.zoomBy(1 / 1.4)), tool("Larger", "+", () => this.zoomBy(1.4)), tool("All", "all", () => this.zoomBy(0)),
        h("span.quiet", "Drag over points to list them; click one to have it answered.")),
      this.problem, figure(this.drawing, () => this.table()), this.reading, this.list);
    this.zoom = whole();
  }

  update(changed) {
    if (!this.lines.value && (changed.has("view") || changed.has("models"))) this.lines.value = (facts()?.examples ?? []).join("\n");
    const [{kind} = {kind: "text"}, second] = facts()?.sources ?? [];
    this.kind = kind;
    this.lines.hidden = kind !== "text" || Boolean(second);
    this.picker.hidden = kind === "text" || Boolean(second);
    this.picker.accept = FILES[kind]?.[1] ?? "";
    fill(this.problem, second && "The map shows the inputs of models with one source.");
    if (this.model === undefined || this.model === state.model) return;
    if (!this.lines.hidden && this.points) this.ask(); // the model may have been chosen in another view
    else this.clear();
  }

  clear() {
    Object.assign(this, {points: null, model: undefined});
    this.picker.value = "";
    fill(this.drawing);
  }

  async ask() {
    const {model} = state;
    const files = this.kind === "text" ? null : await Promise.all([...this.picker.files].map((file) => readFile(this.kind, file)));
    const lines = this.lines.value.split("\n").filter((line) => line.trim()).map((line) => line.split("\t"));
    const rows = files ? files.map((file) => ({words: file.title, label: "", file})) : lines.map(([words, label = ""]) => ({words, label}));
    if (rows.length < 3) return fill(this.problem, files ? "Choose at least three files." : "Give at least three sentences, one a line.");
    const request = {path: "/v1/map", body: {inputs: rows.map(({words, file}) => file?.base64 ?? words), ...named(model)}};
    Object.assign(this, {model, request});
    try {
      const {points, shares, flags} = await post(request.path, request.body);
      if (this.request !== request) return; // another map was asked for
      WIDTH = clamp(document.getElementById("view").clientWidth, 300, 1080);
      Object.assign(this, {rows, points, shares, zoom: whole()});
      fill(this.problem, flags?.join(" "));
      this.draw();
    } catch (error) {
      if (this.request !== request) return;
      fill(this.problem, messageOf(error));
      this.clear(); // its points may be those of another model
    }
  }

  /** Points in the picture: both axes on one scale, as in the space of the vectors. */
  placed() {
    const real = this.points.filter(Boolean);
    const [low, high] = [Math.min, Math.max].map((most) => [0, 1].map((axis) => most(...real.map((point) => point[axis]))));
    const size = [WIDTH, HEIGHT];
    const scale = this.zoom.scale * Math.min(...size.map((length, axis) => (length - 2 * EDGE) / Math.max(1e-9, high[axis] - low[axis])));
    const moved = [WIDTH / 2 - this.zoom.x, HEIGHT / 2 - this.zoom.y];
    return this.points.map((point) => point?.map((value, axis) => size[axis] / 2 + (axis ? -1 : 1) * (value - (low[axis] + high[axis]) / 2) * scale + moved[axis] * this.zoom.scale));
  }

  draw() {
    const labels = [...new Set(this.rows.map(({label}) => label))].filter(Boolean);
    const colour = (label) => COLOURS[Math.max(0, labels.indexOf(label)) % COLOURS.length];
    const places = this.placed();
    const taken = places.filter(Boolean).map(([x, y]) => [x - 6, y - 6, x + 6, y + 6]); // by points and captions
    const points = places.map((at, index) => at && this.point(index, at, colour(this.rows[index].label), taken));
    const legend = labels.map((label, index) => [s("circle", {cx: 12, cy: 16 + 20 * index, r: 5, fill: colour(label)}), text("start", 24, 20 + 20 * index, label)]);
    this.brush = s("rect.brush", {visibility: "hidden"});
    const drawn = svg("map", WIDTH, HEIGHT, "Sentences as points", rect(0, 0, WIDTH, HEIGHT, {class: "sheet-ground"}), points, legend, this.brush,
      text("small.end", WIDTH - 12, HEIGHT - 12, `the plane holds ${number(100 * (this.shares[0] + this.shares[1]), 0)} % of the variance`));
    drawn.setAttribute("role", "group"); // its points are buttons
    for (const [name, listener] of [["pointerdown", this.begin], ["pointermove", this.drag], ["pointerup", this.end], ["wheel", this.wheel]]) drawn.addEventListener(name, (event) => listener.call(this, event));
    fill(this.drawing, drawn);
  }

  point(index, [cx, cy], colour, taken) {
    const {words} = this.rows[index];
    const read = () => fill(this.reading, words);
    return s("g.point", {role: "button", tabindex: 0, "aria-label": words, "data-index": index, onclick: () => this.answer(index), onpointerenter: read, onfocus: read, onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.answer(index);
    }}, s("circle", {cx, cy, r: 6, fill: colour}), caption(words, [cx, cy], taken));
  }

  zoomBy(factor) {
    this.zoom = factor ? {...this.zoom, scale: clamp(this.zoom.scale * factor, 1, 40)} : whole();
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
    const [x, y, right, bottom] = this.dragged(event);
    setAttributes(this.brush, {x, y, width: right - x, height: bottom - y, visibility: "visible"});
  }

  /** Left, top, right and bottom of what is dragged over. */
  dragged(event) {
    const to = this.inPicture(event);
    return [Math.min, Math.max].flatMap((most) => [0, 1].map((axis) => most(this.from[axis], to[axis])));
  }

  end(event) {
    if (!this.from) return;
    const [left, top, right, bottom] = this.dragged(event);
    const chosen = this.placed().flatMap((at, index) => (at && at[0] >= left && at[0] <= right && at[1] >= top && at[1] <= bottom ? [index] : []));
    this.from = null;
    this.brush.setAttribute("visibility", "hidden");
    fill(this.list, chosen.length > 0 && [h("h3", `${chosen.length} chosen`), h("ul", chosen.map((index) => h("li", link(this.rows[index].words, () => this.answer(index)))))]);
  }

  /** Answer a sentence: it becomes the input of all views. */
  answer(index) {
    const [name] = Object.keys(state.inputs);
    const {words, file} = this.rows[index];
    enter({...(file ? {files: {[facts().sources[0].name]: file}} : {inputs: {...state.inputs, [name]: words}}), view: "answer"});
  }

  table() {
    return this.points && table("Sentences and their places", ["sentence", "label", "x", "y"], this.rows.map(({words, label}, index) => [words, label, ...(this.points[index]?.map((value) => number(value)) ?? ["–", "–"])]));
  }

  picture() {
    return this.drawing.querySelector("svg");
  }

  data() {
    return this.points && {model: this.model, shares: this.shares, points: this.rows.map(({words, label}, index) => ({text: words, label, point: this.points[index]}))};
  }
}

/** The sentence beside its point, where there is room. */
function caption(words, [x, y], taken) {
  const short = cut(words, 170, 12);
  const width = textWidth(short, 12);
  for (const [left, dy] of [[x + 10, 4], [x - 10 - width, 4], [x - width / 2, -10], [x - width / 2, 20]]) {
    const box = [left, y + dy - 11, left + width, y + dy + 3];
    if (box[0] < 4 || box[2] > WIDTH - 4 || taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    return text("start.small", left, y + dy, short);
  }
  return null;
}
