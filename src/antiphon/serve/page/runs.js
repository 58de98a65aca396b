// Runs below a folder: live curves, samples, differences; a run in training can be asked at once.

import {get, messageOf} from "./api.js";
import {COLOURS, figure, fill, h, number, s, say, scroller, select, svg, table, text} from "./dom.js";
import {opened} from "./search.js";
import {enter, exemplify, fromAddress, state} from "./store.js";

const [LIST, LOG] = [4000, 1500]; // milliseconds between two looks
const [WIDTH, HEIGHT, LEFT, BOTTOM] = [1080, 320, 56, 34];
const QUANTITIES = {loss: "training loss (dev: dots)", metric: "metric on dev", learning_rate: "learning rate", tokens_per_second: "tokens a second"};
const MOST_POINTS = 400;

export class Runs {
  constructor() {
    this.list = h("div.runs-list");
    this.quantity = select({"aria-label": "Curve", onchange: () => this.draw()}, Object.entries(QUANTITIES));
    this.drawing = scroller("Curves");
    this.details = h("div.run-details");
    this.problem = h("p.quiet", {role: "status"});
    this.curves = h("section.part", h("div.controls", h("label", "curve", this.quantity)), figure(this.drawing, () => this.table()));
    this.element = h("div.runs-view", this.problem, this.list, this.curves, this.details);
    this.rows = [];
    this.logs = new Map(); // name → {rows, evaluations, next, state}
    this.chosen = new Set();
  }

  update(changed) {
    if (!state.runs) fill(this.problem, "This server was started with models. Start it with the folder of your runs, and they are listed here: antiphon serve runs/");
    else if (changed.has("view") || changed.has("models")) this.follow();
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
        if (!this.loading) this.showList();
      }
      const behind = [...this.chosen].filter((name) => this.logs.get(name)?.state !== "finished");
      if ((await Promise.all(behind.map((name) => this.readLog(name)))).some(Boolean)) this.draw();
      await this.showDetails();
      fill(this.problem, this.rows.length ? "" : "There are no runs in this folder yet; a training that begins there appears here.");
    } catch (error) {
      fill(this.problem, messageOf(error));
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.follow(), LOG);
  }

  async readLog(name) {
    const known = this.logs.get(name) ?? {rows: [], evaluations: [], next: 0, state: ""};
    const found = await get(`/v1/run/log?name=${encodeURIComponent(name)}&after=${known.next}`);
    const anew = found.next < known.next; // the run was begun again, or resumed from its last checkpoint
    const fresh = anew || found.rows.length > 0 || known.next === 0 || found.state !== known.state;
    this.logs.set(name, {rows: [...(anew ? [] : known.rows), ...found.rows], evaluations: found.evaluations, next: found.next, state: found.more ? "" : found.state});
    return fresh;
  }

  showList() {
    const rows = this.rows.map((row) => [
      h("td", h("input", {type: "checkbox", checked: this.chosen.has(row.name), "aria-label": `Show ${row.name}`, onchange: (event) => this.choose(row.name, event.currentTarget.checked)})),
      h("td", h("strong", row.name)), h("td", h("span", {class: `state is-${row.state}`}, row.state)), h("td", spark(row.curve)),
      h("td.figure", row.best === null ? "–" : `${row.metric} ${number(row.best)}`), h("td.figure", String(row.update)), h("td.figure", row.seconds ? `${number(row.seconds / 60, 1)} min` : "–"),
      h("td", row.usable ? h("button", {onclick: (event) => this.ask(row.name, event.currentTarget)}, "ask it") : null)]);
    fill(this.list, rows.length > 0 && table(null, ["", "run", "", "curve", "best", "updates", "time", ""], rows));
  }

  choose(name, on) {
    if (on) this.chosen.add(name);
    else this.chosen.delete(name);
    this.draw();
    this.follow();
  }

  /** Load a run with its best weights so far and make it the model of the page. */
  async ask(name, button) {
    this.loading = true; // meanwhile the list stays as it is
    button.disabled = true;
    fill(button, "loading …");
    say(`Loading ${name}`);
    try {
      const next = fromAddress("#answer", [await opened(name)]);
      exemplify(next);
      enter({...next, files: {}, turns: []});
    } catch (error) {
      fill(this.problem, messageOf(error));
    } finally {
      this.loading = false;
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
    const points = (rows, key) => rows.filter((one) => Number.isFinite(one[key])).map((one) => [one.update, one[key]]); // NaN comes as null
    const dots = points(log.evaluations, dev);
    const line = quantity === "metric" ? dots : points(log.rows, quantity);
    return {line: thinned(line), dots};
  }

  draw() {
    const curves = [...this.chosen].map((name) => ({name, ...this.curve(name)})).filter(({line}) => line.length);
    this.curves.toggleAttribute("hidden", !curves.length);
    if (!curves.length) return;
    const points = curves.flatMap(({line, dots}) => [...line, ...dots]);
    const values = points.map(([, value]) => value);
    const right = Math.max(1, ...points.map(([update]) => update));
    const [low, high] = [Math.min(0, ...values), Math.max(1e-9, ...values)];
    const x = (update) => LEFT + ((WIDTH - LEFT - 16) * update) / right;
    const y = (value) => 12 + (HEIGHT - BOTTOM - 12) * (1 - (value - low) / (high - low));
    const written = (value) => (Math.abs(value) >= 1000 ? String(Math.round(value)) : Math.abs(value) < 0.01 && value ? value.toExponential(0) : number(value, high > 20 ? 0 : 2));
    const across = (x1, x2, at) => ({x1, x2, y1: at, y2: at});
    fill(this.drawing, svg("chart", WIDTH, HEIGHT + 22 * curves.length, `${QUANTITIES[this.quantity.value]} by update`,
      [0, 0.25, 0.5, 0.75, 1].map((share) => {
        const value = low + share * (high - low);
        return [s("line.grid", across(LEFT, WIDTH - 16, y(value))), text("small.end", LEFT - 8, y(value) + 4, written(value)), text("small", x(share * right), HEIGHT - BOTTOM + 20, String(Math.round(share * right)))];
      }),
      curves.map(({name, line, dots}, index) => {
        const stroke = COLOURS[index % COLOURS.length];
        const at = HEIGHT + 22 * index + 8;
        return [s("polyline.line", {stroke, points: line.map(([update, value]) => `${x(update).toFixed(1)},${y(value).toFixed(1)}`).join(" ")}), dots.map(([update, value]) => s("circle", {cx: x(update), cy: y(value), r: 3.5, fill: stroke})),
          s("line.line", {stroke, ...across(LEFT, LEFT + 24, at)}), text("start", LEFT + 34, at + 4, name)];
      })));
  }

  async showDetails() {
    const names = [...this.chosen];
    const wanted = names.join();
    if (this.shown === wanted) return;
    const content = await details(names);
    if (wanted !== [...this.chosen].join()) return; // others were chosen meanwhile
    this.shown = wanted;
    fill(this.details, content);
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

/** The samples and the configuration of one run, or the differences between two. */
async function details(names) {
  const [one, other] = names.map(encodeURIComponent);
  if (names.length === 2) {
    const {differences} = await get(`/v1/runs/compare?one=${one}&other=${other}`);
    const rows = differences.map((row) => [h("th", {scope: "row"}, row.key), row.one, row.other]);
    return [h("h3", `${differences.length} keys of the configuration differ`), scroller("Differences", table(null, ["key", ...names], rows))];
  }
  if (names.length !== 1) return h("p.quiet", "Choose one run for its samples and configuration, two for their differences.");
  const {samples, config} = await get(`/v1/run?name=${one}`);
  const rows = samples.slice(-8).map(({update, source, output, references}) => [update, source, output, references.includes(output) ? "✓" : references[0] ?? ""]);
  const shown = table(null, ["update", "source", "output", "right"], rows);
  shown.classList.add("wrap");
  return [rows.length > 0 && [h("h3", "Latest samples"), scroller("Samples", shown)], h("details.as-table", h("summary", "Configuration"), h("pre", {tabindex: 0}, config))];
}

function spark(values) {
  const curve = values.filter(Number.isFinite);
  if (curve.length < 2) return null;
  const [low, high] = [Math.min(...curve), Math.max(...curve)];
  const points = curve.map((value, index) => `${((index * 80) / (curve.length - 1)).toFixed(1)},${(20 - (18 * (value - low)) / Math.max(1e-9, high - low)).toFixed(1)}`);
  return s("svg.chart.spark", {viewBox: "-2 0 84 22", width: 84, height: 22, "aria-hidden": "true"}, s("polyline.line", {stroke: "var(--accent)", points: points.join(" ")}));
}
