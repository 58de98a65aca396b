// The beam: the search tree while it grows, its finished answers, and what steers it.

import {BeamDrawing, along} from "./beam_drawing.js";
import {calm, figure, fill, h, help, isEnd, number, probability, s, say, shown, table} from "./dom.js";
import {normalised, path} from "./search.js";
import {change, facts, joined, option, setOptions, state, steer} from "./store.js";

const LIVE = 70; // milliseconds a step, of a tree that has just been searched
const SLOW = 650; // of one that is played

/** The view, or as a part of another view: the tree alone. */
export class Beam {
  constructor({compact = false, source = () => state.result} = {}) {
    this.compact = compact;
    this.source = source;
    this.drawing = new BeamDrawing({chosen: (node) => this.choose(node), pointed: (node) => this.point(node)});
    this.scroller = h("div", {class: "beam-scroll", onscroll: () => this.showPlace(), onwheel: (event) => this.wheel(event)}, this.drawing.svg);
    this.minimap = s("svg", {class: "minimap", "aria-hidden": "true", preserveAspectRatio: "none", onpointerdown: (event) => this.jump(event), onpointermove: (event) => event.buttons && this.jump(event)});
    this.pointed = h("p", {class: "pointed-line", "aria-live": "off"});
    this.finished = h("div", {class: "finished"});
    this.changed = h("p", {class: "changed-line"});
    this.legend = h("p", {class: "legend"});
    this.controls = compact ? null : new Controls(this);
    this.element = h("div", {class: compact ? "beam-view compact" : "beam-view"},
      this.controls?.element, this.changed,
      figure(h("div", {class: "beam-frame"}, this.scroller, this.minimap), () => this.table()),
      this.pointed, this.legend, this.finished);
    this.until = Infinity;
    this.part = 0;
    this.timer = 0;
    this.result = null;
    this.showGreedy = true;
    this.penalty = null; // while its slider is moved
  }

  get nodes() {
    return this.result?.trees[this.part] ?? [];
  }

  /** The tree before the last steering, of the model that is steered. */
  get ghost() {
    return this.result === state.result ? state.ghost : null;
  }

  get steps() {
    return this.nodes.length ? this.nodes.at(-1).step + 1 : 0;
  }

  update(changed) {
    const result = this.source();
    const fresh = result?.trees !== this.trees && result !== this.result;
    if (fresh) this.begin(result);
    this.trees = result?.trees;
    this.draw(fresh);
  }

  begin(result) {
    this.result = result;
    this.part = 0;
    this.placed = false;
    this.penalty = null;
    this.play(calm() || this.compact ? 0 : LIVE, -1);
  }

  /** Grow the tree from a step on, so many milliseconds a step; 0 shows all at once. */
  play(pause, from) {
    clearTimeout(this.timer);
    this.pause = pause;
    this.until = pause ? from : Infinity;
    if (pause) this.timer = setTimeout(() => this.tick(), pause);
    this.controls?.show();
  }

  tick() {
    if (this.until + 1 < this.steps) {
      this.until += 1;
      this.draw(false);
    } else if (this.result?.status !== "searching") {
      return this.stop(Infinity);
    }
    this.timer = setTimeout(() => this.tick(), this.pause);
    return null;
  }

  stop(until) {
    clearTimeout(this.timer);
    this.pause = 0;
    this.until = until;
    this.draw(false);
  }

  draw(fresh) {
    const {result} = this;
    this.element.classList.toggle("without", !this.nodes.length);
    if (!result) return this.clear("Type something above: the search for its answer is drawn here.");
    const done = result.status === "done" && this.until + 1 >= this.steps;
    const winners = done ? this.winners() : new Set();
    const greedy = done && this.showGreedy && result.greedy ? along(this.nodes, result.greedy.token_ids ?? []) : [];
    const marks = {winner: winners, greedy: new Set(greedy.map((node) => node.id)), locked: this.part ? 0 : result.prefix.length};
    this.drawing.draw(this.nodes, {beam: result.beam, until: this.until, marks, fresh});
    this.drawing.ghost(this.ghost?.trees[this.part] ?? [], this.ghost?.beam ?? 1);
    if (!this.placed && this.nodes.length) this.fit(done);
    if (done) this.focusPosition();
    this.writeLegend(done, greedy);
    this.writeFinished();
    this.writeChanged(done);
    if (!this.pause) this.drawMinimap();
    this.controls?.show();
    return null;
  }

  clear(sentence) {
    this.drawing.clear();
    for (const part of [this.finished, this.changed, this.legend]) fill(part);
    return fill(this.pointed, sentence);
  }

  /** The path of the answer; without rerankers that of the best hypothesis. */
  winners() {
    const ids = this.result.output?.token_ids;
    const found = ids && this.result.trees.length === 1 ? along(this.nodes, ids) : this.nodes.filter((node) => node.winner);
    return new Set(found.map((node) => node.id));
  }

  /** As much of the tree as fits, not smaller than can be read. */
  fit(done) {
    const width = this.scroller.clientWidth;
    if (!width || !done) return;
    this.drawing.zoom = Math.min(1, Math.max(0.72, width / this.drawing.width));
    this.drawing.resize();
    this.placed = true;
  }

  zoomBy(factor) {
    this.drawing.zoom = Math.min(2, Math.max(0.4, this.drawing.zoom * factor));
    this.placed = true;
    this.drawing.resize();
    this.drawMinimap();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoomBy(event.deltaY < 0 ? 1.1 : 1 / 1.1);
  }

  choose(node) {
    if (this.part || this.result.trees.length > 1) return say("A text that was answered in parts cannot be steered.");
    const ids = path(this.nodes, node).filter((one) => !isEnd(one.token)).map((one) => one.token_id);
    change({position: Math.max(0, ids.length - 1)});
    return steer(ids);
  }

  point(node) {
    if (!node) return fill(this.pointed, this.hint());
    const words = path(this.nodes, node).map((one) => shown(one.token)).join(" ");
    const column = this.nodes.filter((one) => one.step === node.step);
    const rank = column.indexOf(node) + 1;
    const kept = column.filter((one) => one.status !== "pruned").length;
    const fate = {kept: "kept", finished: "finished", pruned: `pruned: this step kept the ${kept} best`}[node.status];
    return fill(this.pointed, h("strong", {}, words),
      ` · log p ${number(node.log_prob)} (p ${probability(Math.exp(node.log_prob))}) · sum ${number(node.total)} · rank ${rank} of step ${node.step + 1} · ${fate}`);
  }

  hint() {
    return this.nodes.length ? "Point at a node for its numbers; click it, and the search goes on from there." : "";
  }

  focusPosition() {
    const found = along(this.nodes, this.result.output.token_ids ?? []);
    this.drawing.focus((found[state.position] ?? found[0])?.id ?? 0, {quiet: true});
  }

  writeLegend(done, greedy) {
    const {result} = this;
    if (facts()?.unwatchable) return fill(this.legend, facts().unwatchable);
    const notes = [];
    if (done && result.rerankers?.length) notes.push(`The answer was chosen among the finished ones by ${result.rerankers.map(reranker).join(" and ")}, not by the network's score alone.`);
    if (done && result.greedy && this.showGreedy) notes.push(greedyNote(result, greedy));
    fill(this.legend, notes.filter(Boolean).map((note) => h("span", {}, note)));
    return this.element.querySelector(".pointed") ? null : this.point(null);
  }

  /** The finished hypotheses, ordered by their score with the length penalty that is set. */
  ranked(result = this.result, part = this.part) {
    const nodes = result?.trees[part] ?? [];
    const penalty = this.penalty ?? option("length_penalty");
    const found = nodes.filter((node) => node.status === "finished" && (result !== this.result || node.step <= this.until));
    return found
      .map((node) => ({node, tokens: path(nodes, node), score: normalised(node.total, node.step + 1, penalty)}))
      .sort((one, other) => other.score - one.score);
  }

  writeFinished() {
    if (this.compact) return;
    const rows = this.ranked();
    if (!rows.length) return void fill(this.finished, this.nodes.length ? h("p", {class: "quiet"}, "No hypothesis has finished yet.") : null);
    const best = rows[0].score;
    fill(this.finished, h("h3", {}, "Finished hypotheses ", help("A hypothesis is finished when it ends. They are ordered by the sum of their log probabilities, divided by a power of their length, so that long answers are not at a disadvantage.", "score = Σ log p / length^a")),
      h("ol", {class: "ranking"}, rows.slice(0, 12).map(({node, tokens, score}, place) => h("li", {class: place ? "" : "first"},
        h("span", {class: "figure quiet"}, String(place + 1)), h("button", {type: "button", class: "plain", onclick: () => this.choose(node)}, joined(tokens.map((one) => one.token), this.result.model) || "(empty)"),
        h("span", {class: "bar-cell"}, h("span", {class: "score-bar", style: {width: `${Math.max(2, 100 * Math.exp(3 * (score - best)))}%`}})),
        h("span", {class: "figure"}, number(score)), h("span", {class: "figure quiet"}, `Σ ${number(node.total)} / ${node.step + 1}`)))));
  }

  /** What a steering has changed. */
  writeChanged(done) {
    const {ghost} = this;
    const before = ghost?.output;
    const now = this.result.output;
    if (!before || !now || !done) return void fill(this.changed);
    const others = this.ranked(ghost, 0).map((one) => one.score);
    const rank = 1 + others.filter((score) => score > now.score).length;
    fill(this.changed, h("strong", {}, "Steered. "), `Score ${number(before.score)} → ${number(now.score)}`,
      others.length ? `; among the answers before it would be rank ${rank}. ` : ". ", before.text === now.text ? "The answer is the same." : `Before: ${before.text}`);
  }

  table() {
    const rows = this.nodes.map((node) => {
      const tokens = path(this.nodes, node).map((one) => shown(one.token));
      return [node.step + 1, tokens.join(" "), number(node.log_prob), number(node.total), number(node.score), node.winner ? `${node.status}, winner` : node.status];
    });
    return table("Candidates of each step, best first", ["step", "hypothesis", "log p of the last token", "sum of log p", "score", "status"], rows);
  }

  drawMinimap() {
    const {width, height, place} = {width: this.drawing.width, height: this.drawing.height, place: this.drawing.place};
    const over = this.scroller.scrollWidth > this.scroller.clientWidth + 4 && !this.compact;
    this.minimap.toggleAttribute("hidden", !over);
    if (!over) return;
    this.minimap.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const marks = [...place.boxes.values()].filter(({node}) => this.drawing.drawn.has(node.id)).map(({node, x, y, width: wide}) =>
      s("rect", {x, y, width: wide, height: 30, class: this.drawing.drawn.get(node.id).box.getAttribute("class")}));
    this.frame = s("rect", {class: "frame", y: 0, height});
    fill(this.minimap, marks, this.frame);
    this.showPlace();
  }

  showPlace() {
    const scale = this.drawing.width / this.scroller.scrollWidth;
    this.frame?.setAttribute("x", this.scroller.scrollLeft * scale);
    this.frame?.setAttribute("width", this.scroller.clientWidth * scale);
  }

  jump(event) {
    const {left, width} = this.minimap.getBoundingClientRect();
    const share = (event.clientX - left) / width;
    this.scroller.scrollLeft = share * this.scroller.scrollWidth - this.scroller.clientWidth / 2;
  }

  picture() {
    return this.nodes.length ? this.drawing.svg : null;
  }

  data() {
    const {result} = this;
    return result && {model: result.model, input: result.input, prefix: result.prefix, options: {...result.options, beam: result.beam, length_penalty: result.lengthPenalty}, output: result.output, trees: result.trees.map((nodes) => ({nodes})), greedy: result.greedy};
  }
}

const reranker = (name) => (name === "joint" ? "joint n-grams" : name);

function greedyNote(result, path_) {
  const {greedy, output} = result;
  const mark = h("span", {class: "dot", "aria-hidden": "true"});
  if (greedy.text === output.text) return [mark, "Greedy search finds the same answer."];
  const lost = path_.length < greedy.tokens.length ? ` Its path leaves the tree at step ${path_.length + 1}.` : "";
  return [mark, `Greedy search writes “${greedy.text}” (score ${number(greedy.score)}); the beam's answer has ${number(output.score)}.${lost}`];
}

/** The player and the options of the search. */
class Controls {
  constructor(beam) {
    this.beam = beam;
    this.playButton = button("Play from the start", "▶", () => this.toggle());
    this.slider = h("input", {type: "range", min: 0, max: 1, value: 1, "aria-label": "Step shown", oninput: () => beam.stop(Number(this.slider.value) - 1)});
    this.stepText = h("span", {class: "figure quiet step-text"});
    this.speed = h("select", {"aria-label": "Speed"}, [0.5, 1, 2, 4].map((value) => h("option", {value}, `${value === 0.5 ? "½" : value}×`)));
    this.speed.value = 1;
    this.kind = h("select", {id: "search-kind", onchange: () => this.chooseKind()}, ["beam", "greedy", "sample"].map((name) => h("option", {value: name}, name === "beam" ? "beam search" : name === "greedy" ? "greedy search" : "sampling")));
    this.width = h("input", {type: "number", min: 1, id: "beam-width", onchange: () => setOptions({beam: clamp(this.width, 1, widest())})});
    this.penalty = h("input", {type: "range", min: 0, max: 2, step: 0.1, id: "length-penalty",
      oninput: () => this.sort(), onchange: () => setOptions({length_penalty: Number(this.penalty.value)})});
    this.penaltyText = h("output", {for: "length-penalty", class: "figure"});
    this.patience = h("select", {id: "patience", onchange: () => setOptions({patience: Number(this.patience.value) || null})}, [["", "shrinks"], [1, "stays full"], [2, "stays full, twice as long"]].map(([value, text]) => h("option", {value}, text)));
    this.temperature = h("input", {type: "range", min: 0.1, max: 2, step: 0.1, id: "temperature", onchange: () => setOptions({temperature: Number(this.temperature.value)}), oninput: () => fill(this.temperatureText, number(Number(this.temperature.value), 1))});
    this.temperatureText = h("output", {for: "temperature", class: "figure"});
    this.again = button("Draw another sample", "draw again", () => setOptions({seed: Math.round(Math.random() * 1e6) + 1}));
    this.unit = h("select", {"aria-label": "Numbers", onchange: () => beam.drawing.show(this.unit.value === "p")}, h("option", {value: "log"}, "log p"), h("option", {value: "p"}, "p"));
    this.greedy = h("input", {type: "checkbox", id: "greedy", checked: true, onchange: () => this.toggleGreedy()});
    this.element = h("div", {class: "controls"},
      h("div", {class: "group"}, button("To the start", "⇤", () => beam.stop(-1)), this.playButton, button("One step on", "⇥", () => this.step()), this.slider, this.stepText, this.speed),
      h("div", {class: "group"}, label("search", this.kind), this.widthGroup = h("span", {class: "group"}, label("beam", this.width), this.patienceGroup = label("the beam", this.patience)),
        label("length penalty", this.penalty, this.penaltyText),
        this.sampling = h("span", {class: "group"}, label("temperature", this.temperature, this.temperatureText), this.again)),
      h("div", {class: "group"}, label("numbers", this.unit), this.greedyGroup = label("greedy path", this.greedy), button("Smaller", "−", () => beam.zoomBy(1 / 1.2)), button("Larger", "+", () => beam.zoomBy(1.2))));
  }

  toggle() {
    if (this.beam.pause) return this.beam.stop(this.beam.until);
    const from = this.beam.until + 1 >= this.beam.steps ? -1 : this.beam.until;
    this.beam.play(SLOW / Number(this.speed.value), from);
    return this.beam.draw(false);
  }

  step() {
    this.beam.stop(Math.min(this.beam.steps - 1, this.beam.until === Infinity ? 0 : this.beam.until + 1));
  }

  chooseKind() {
    const kind = this.kind.value;
    setOptions({sample: kind === "sample" || null, beam: kind === "greedy" ? 1 : null, temperature: null, seed: null, patience: null});
    if (kind === "beam" && option("beam") < 2) setOptions({beam: 4});
  }

  sort() {
    this.beam.penalty = Number(this.penalty.value);
    fill(this.penaltyText, number(this.beam.penalty, 1));
    this.beam.writeFinished();
  }

  toggleGreedy() {
    this.beam.showGreedy = this.greedy.checked;
    this.beam.draw(false);
  }

  show() {
    const {beam} = this;
    const {steps} = beam;
    this.slider.max = steps;
    if (document.activeElement !== this.slider || beam.pause) this.slider.value = Math.min(steps, beam.until + 1);
    fill(this.stepText, `step ${Math.min(steps, beam.until + 1)} of ${steps}`);
    fill(this.playButton, beam.pause ? "❙❙" : "▶");
    this.playButton.setAttribute("aria-label", beam.pause ? "Pause" : "Play");
    const kind = option("sample") ? "sample" : option("beam") < 2 ? "greedy" : "beam";
    this.kind.value = kind;
    this.width.max = widest();
    this.width.value = option("beam");
    this.penalty.value = beam.penalty ?? option("length_penalty");
    fill(this.penaltyText, number(Number(this.penalty.value), 1));
    this.patience.value = state.options.patience ?? "";
    this.temperature.value = option("temperature");
    fill(this.temperatureText, number(Number(this.temperature.value), 1));
    this.widthGroup.toggleAttribute("hidden", kind !== "beam");
    this.greedyGroup.toggleAttribute("hidden", kind !== "beam");
    this.sampling.toggleAttribute("hidden", kind !== "sample");
  }
}

const button = (name, text, onclick) => h("button", {type: "button", "aria-label": name, title: name, onclick}, text);
const label = (text, ...fields) => h("label", {}, h("span", {}, text), fields);

const widest = () => Math.min(20, facts()?.target_tokens ?? 20);

function clamp(field, least, most) {
  const value = Math.min(most, Math.max(least, Math.round(Number(field.value)) || least));
  field.value = value;
  return value;
}
