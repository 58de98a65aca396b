// Runs below a folder: live curves, samples, differences; a run in training can be asked at once.

import {ApiError, get} from "./api.js";
import {figure, fill, h, number, s, say, table} from "./dom.js";
import {opened} from "./search.js";
import {enter, fromAddress, state} from "./store.js";

const [LIST, LOG] = [4000, 1500]; // milliseconds between two looks
const [WIDTH, HEIGHT, LEFT, BOTTOM] = [1080, 320, 56, 34];
const COLOURS = ["var(--accent)", "var(--warn)", "var(--third)", "var(--fourth)", "var(--fifth)"];
const QUANTITIES = {loss: "training loss (dev: dots)", metric: "metric on dev", learning_rate: "learning rate", tokens_per_second: "tokens a second"};
const MOST_POINTS = 400;

export class Runs {
  constructor() {
    this.list = h("div", {class: "runs-list"});
    this.quantity = h("select", {"aria-label": "Curve", onchange: () => this.draw()}, Object.entries(QUANTITIES).map(([value, text]) => h("option", {value}, text)));
    this.drawing = h("div", {class: "scroll-x", tabindex: 0, role: "group", "aria-label": "Curves"});
    this.details = h("div", {class: "run-details"});
    this.problem = h("p", {class: "quiet", role: "status"});
    this.curves = h("section", {class: "part"}, h("div", {class: "controls"}, h("label", {}, "curve", this.quantity)), figure(this.drawing, () => this.table()));
    this.element = h("div", {class: "runs-view"}, this.problem, this.list, this.curves, this.details);
    this.rows = [];
    this.logs = new Map(); // name → {rows, evaluations, next, state}
    this.chosen = new Set();
  }

  update(changed) {
    if (!state.runs) return fill(this.problem, "This server was started with models. Start it with the folder of your runs, and they are listed here: antiphon serve runs/");
    if (changed.has("view") || changed.has("models")) this.follow();
    else if (changed.has("theme")) this.draw();
    return undefined;
  }

  /** Look at the list and at the logs of chosen runs, as long as this view is shown. */
  async follow() {
    clearTimeout(this.timer);
    if (state.view !== "runs") return;
    try {
      if (!(this.looked > performance.now() - LIST)) {
        this.rows = (await get("/v1/runs")).runs;
        this.looked = performance.now();
        if (!this.chosen.size && this.rows.length) this.chosen.add(this.rows[0].name);
        this.showList();
      }
      const behind = [...this.chosen].filter((name) => this.logs.get(name)?.state !== "finished");
      if ((await Promise.all(behind.map((name) => this.readLog(name)))).some(Boolean)) this.draw();
      if (this.shown !== [...this.chosen].join()) await this.showDetails();
      fill(this.problem, this.rows.length ? "" : "There are no runs in this folder yet; a training that begins there appears here.");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(this.problem, error.message);
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.follow(), LOG);
  }

  async readLog(name) {
    const known = this.logs.get(name) ?? {rows: [], evaluations: [], next: 0, state: ""};
    const found = await get(`/v1/run/log?name=${encodeURIComponent(name)}&after=${known.next}`);
    const fresh = found.rows.length > 0 || known.next === 0 || found.state !== known.state;
    this.logs.set(name, {rows: [...known.rows, ...found.rows], evaluations: found.evaluations, next: found.next, state: found.more ? "" : found.state});
    return fresh;
  }

  showList() {
    const head = ["", "run", "", "curve", "best", "updates", "time", ""];
    const rows = this.rows.map((row) => h("tr", {},
      h("td", {}, h("input", {type: "checkbox", checked: this.chosen.has(row.name), "aria-label": `Show ${row.name}`, onchange: (event) => this.choose(row.name, event.currentTarget.checked)})),
      h("td", {}, h("strong", {}, row.name)), h("td", {}, h("span", {class: `state is-${row.state}`}, row.state)), h("td", {}, spark(row.curve)),
      h("td", {class: "figure"}, row.best === null ? "–" : `${row.metric} ${number(row.best)}`), h("td", {class: "figure"}, String(row.update)), h("td", {class: "figure"}, row.seconds ? `${number(row.seconds / 60, 1)} min` : "–"),
      h("td", {}, row.usable ? h("button", {type: "button", onclick: (event) => this.ask(row.name, event.currentTarget)}, "ask it") : null)));
    fill(this.list, rows.length ? h("table", {class: "data"}, h("thead", {}, h("tr", {}, head.map((cell) => h("th", {scope: "col"}, cell)))), h("tbody", {}, rows)) : null);
  }

  choose(name, on) {
    if (on) this.chosen.add(name);
    else this.chosen.delete(name);
    this.draw();
    this.follow();
  }

  /** Load a run with its best weights so far and make it the model of the page. */
  async ask(name, button) {
    button.disabled = true;
    fill(button, "loading …");
    say(`Loading ${name}`);
    try {
      const model = await opened(name);
      const next = fromAddress("#answer", [model]);
      const [only] = Object.keys(next.inputs);
      if (model.examples?.[0]) next.inputs[only] = model.examples[0];
      enter({...next, files: {}, turns: []});
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(this.problem, error.message);
      this.showList();
    }
  }

  /** The curve of a run: [[update, value]], and its dots. */
  curve(name) {
    const log = this.logs.get(name);
    const row = this.rows.find((one) => one.name === name);
    if (!log || !row) return {line: [], dots: []};
    const quantity = this.quantity.value;
    const dev = quantity === "metric" ? (row.metric === "loss" ? "dev_loss" : row.metric) : quantity === "loss" ? "dev_loss" : null;
    const dots = dev ? log.evaluations.filter((one) => dev in one).map((one) => [one.update, one[dev]]) : [];
    const line = quantity === "metric" ? dots : log.rows.filter((one) => quantity in one).map((one) => [one.update, one[quantity]]);
    return {line: thinned(line), dots};
  }

  draw() {
    const curves = [...this.chosen].map((name) => ({name, ...this.curve(name)})).filter(({line}) => line.length);
    this.curves.toggleAttribute("hidden", !curves.length);
    if (!curves.length) return;
    const points = curves.flatMap(({line, dots}) => [...line, ...dots]);
    const right = Math.max(1, ...points.map(([update]) => update));
    const [low, high] = [Math.min(0, ...points.map(([, value]) => value)), Math.max(1e-9, ...points.map(([, value]) => value))];
    const at = ([update, value]) => [LEFT + ((WIDTH - LEFT - 16) * update) / right, 12 + (HEIGHT - BOTTOM - 12) * (1 - (value - low) / (high - low))];
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    const say_ = (value) => (Math.abs(value) >= 1000 ? String(Math.round(value)) : Math.abs(value) < 0.01 && value ? value.toExponential(0) : number(value, high > 20 ? 0 : 2));
    fill(this.drawing, s("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT + 22 * curves.length}`, role: "img", "aria-label": `${QUANTITIES[this.quantity.value]} by update`},
      ticks.map((share) => [s("line", {class: "grid", x1: LEFT, x2: WIDTH - 16, y1: at([0, low + share * (high - low)])[1], y2: at([0, low + share * (high - low)])[1]}), s("text", {class: "small end", x: LEFT - 8, y: at([0, low + share * (high - low)])[1] + 4}, say_(low + share * (high - low))), s("text", {class: "small", x: at([share * right, 0])[0], y: HEIGHT - BOTTOM + 20}, String(Math.round(share * right)))]),
      curves.map(({name, line, dots}, index) => [s("polyline", {class: "line", stroke: COLOURS[index % COLOURS.length], points: line.map((point) => at(point).map((one) => one.toFixed(1)).join()).join(" ")}),
        dots.map((point) => s("circle", {cx: at(point)[0], cy: at(point)[1], r: 3.5, fill: COLOURS[index % COLOURS.length]})),
        s("line", {class: "line", stroke: COLOURS[index % COLOURS.length], x1: LEFT, x2: LEFT + 24, y1: HEIGHT + 22 * index + 8, y2: HEIGHT + 22 * index + 8}), s("text", {class: "start", x: LEFT + 34, y: HEIGHT + 22 * index + 12}, name)])));
  }

  async showDetails() {
    const names = [...this.chosen];
    this.shown = names.join();
    if (names.length === 2) {
      const {differences} = await get(`/v1/runs/compare?one=${encodeURIComponent(names[0])}&other=${encodeURIComponent(names[1])}`);
      const rows = differences.map(({key, one, other}) => h("tr", {}, h("th", {scope: "row"}, key), h("td", {}, one), h("td", {}, other)));
      return fill(this.details, h("h3", {}, `${differences.length} keys of the configuration differ`), h("div", {class: "scroll"}, h("table", {class: "data"}, h("thead", {}, h("tr", {}, ["key", ...names].map((cell) => h("th", {scope: "col"}, cell)))), h("tbody", {}, rows))));
    }
    if (names.length !== 1) return fill(this.details, h("p", {class: "quiet"}, "Choose one run for its samples and configuration, two for their differences."));
    const run = await get(`/v1/run?name=${encodeURIComponent(names[0])}`);
    const samples = run.samples.slice(-8).map(({update, source, output, references}) => h("tr", {}, h("td", {class: "figure"}, String(update)), h("td", {}, source), h("td", {}, output),
      h("td", {}, references.includes(output) ? "✓" : references[0] ?? "")));
    return fill(this.details, samples.length ? [h("h3", {}, "Latest samples"), h("div", {class: "scroll"}, h("table", {class: "data wrap"}, h("thead", {}, h("tr", {}, ["update", "source", "output", "right"].map((cell) => h("th", {scope: "col"}, cell)))), h("tbody", {}, samples)))] : null,
      h("details", {class: "as-table"}, h("summary", {}, "Configuration"), h("pre", {tabindex: 0}, run.config)));
  }

  table() {
    const rows = [...this.chosen].flatMap((name) => this.curve(name).line.map(([update, value]) => [name, update, number(value, 4)]));
    return table(QUANTITIES[this.quantity.value], ["run", "update", "value"], rows);
  }

  picture() {
    return this.drawing.querySelector("svg");
  }

  data() {
    return this.rows.length ? {runs: this.rows, curves: Object.fromEntries([...this.chosen].map((name) => [name, this.curve(name)]))} : null;
  }
}

/** At most so many points: the mean of neighbours. */
function thinned(line) {
  const size = Math.ceil(line.length / MOST_POINTS);
  if (size < 2) return line;
  return Array.from({length: Math.ceil(line.length / size)}, (_, index) => {
    const part = line.slice(index * size, (index + 1) * size);
    return [part.at(-1)[0], part.reduce((sum, [, value]) => sum + value, 0) / part.length];
  });
}

function spark(curve) {
  if (curve.length < 2) return null;
  const [low, high] = [Math.min(...curve), Math.max(...curve)];
  const points = curve.map((value, index) => `${((index * 80) / (curve.length - 1)).toFixed(1)},${(20 - (18 * (value - low)) / Math.max(1e-9, high - low)).toFixed(1)}`);
  return s("svg", {class: "chart spark", viewBox: "-2 0 84 22", width: 84, height: 22, "aria-hidden": "true"}, s("polyline", {class: "line", stroke: "var(--accent)", points: points.join(" ")}));
}
