// The beam: the search tree while it grows, its finished answers, and what steers it.

import {BeamDrawing, along} from "./beam_drawing.js";
import {calm, clamp, figure, fill, h, help, isEnd, link, number, probability, rect, s, say, select, setAttributes, shown, table, tool} from "./dom.js";
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
    this.scroller = h("div.beam-scroll", {onscroll: () => this.showPlace(), onwheel: (event) => this.wheel(event)}, this.drawing.svg);
    this.minimap = s("svg.minimap", {"aria-hidden": "true", preserveAspectRatio: "none", onpointerdown: (event) => this.jump(event), onpointermove: (event) => event.buttons && this.jump(event)});
    this.pointed = h("p.pointed-line", {"aria-live": "off"});
    this.finished = h("div.finished");
    this.changed = h("p.changed-line");
    this.legend = h("p.legend");
    this.controls = compact ? null : new Controls(this);
    this.element = h("div.beam-view", {class: compact && "compact"},
      this.controls?.element, this.changed,
      figure(h("div.beam-frame", this.scroller, this.minimap), () => this.table()),
      this.pointed, this.legend, this.finished);
    this.until = Infinity;
    this.timer = 0;
    this.result = null;
    this.showGreedy = true;
    this.penalty = null; // while its slider is moved
  }

  get nodes() {
    return this.result?.trees[0] ?? [];
  }

  /** The tree before the last steering, of the model that is steered. */
  get ghost() {
    return this.result === state.result ? state.ghost : null;
  }

  get steps() {
    return this.nodes.length ? this.nodes.at(-1).step + 1 : 0;
  }

  update() {
    const result = this.source();
    const fresh = result !== this.result;
    if (fresh) this.begin(result);
    this.draw(fresh);
  }

  begin(result) {
    this.result = result;
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
    } else if (this.result?.status !== "searching" || !this.element.isConnected) return this.stop(Infinity);
    this.timer = setTimeout(() => this.tick(), this.pause);
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
    const marks = {winner: winners, greedy: new Set(greedy.map((node) => node.id)), locked: result.prefix.length};
    this.drawing.draw(this.nodes, {beam: result.beam, until: this.until, marks, fresh});
    this.drawing.ghost(this.ghost?.trees[0] ?? [], this.ghost?.beam ?? 1);
    if (!this.placed && this.nodes.length) this.fit(done);
    if (done) this.focusPosition();
    this.writeLegend(done, greedy);
    this.writeFinished();
    this.writeChanged(done);
    if (!this.pause) this.drawMinimap();
    this.controls?.show();
  }

  clear(sentence) {
    this.drawing.clear();
    for (const part of [this.finished, this.changed, this.legend]) fill(part);
    fill(this.pointed, sentence);
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
    this.drawing.zoom = clamp(width / this.drawing.width, 0.72, 1);
    this.drawing.resize();
    this.placed = true;
  }

  zoomBy(factor) {
    this.drawing.zoom = clamp(this.drawing.zoom * factor, 0.4, 2);
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
    if (this.result !== state.result) return this.explain("Only the search of the model that is chosen above can be steered.");
    if (this.result.trees.length > 1) return this.explain("A text that was answered in parts cannot be steered.");
    const ids = path(this.nodes, node).filter((one) => !isEnd(one.token)).map((one) => one.token_id);
    change({position: Math.max(0, ids.length - 1)});
    steer(ids);
  }

  explain(sentence) {
    fill(this.pointed, sentence);
    say(sentence);
  }

  point(node) {
    if (!node) return fill(this.pointed, this.nodes.length > 0 && "Point at a node for its numbers; click it, and the search goes on from there.");
    const kept = this.nodes.filter(({step, status}) => step === node.step && status !== "pruned").length;
    const fate = node.forced ? "locked" : node.status === "pruned" ? `pruned: this step kept the ${kept} best` : node.status;
    fill(this.pointed, h("strong", this.words(node)),
      ` · log p ${number(node.log_prob)} (p ${probability(Math.exp(node.log_prob))}) · sum ${number(node.total)} · rank ${node.rank} of step ${node.step + 1} · ${fate}`);
  }

  /** The tokens up to a node. */
  words(node) {
    return path(this.nodes, node).map((one) => shown(one.token)).join(" ");
  }

  focusPosition() {
    const found = along(this.nodes, this.result.output.token_ids ?? []);
    this.drawing.focus((found[state.position] ?? found[0])?.id ?? 0, {quiet: true});
  }

  writeLegend(done, greedy) {
    const {result} = this;
    const {unwatchable} = facts(result.model);
    if (unwatchable) return fill(this.legend, unwatchable);
    const names = done && result.rerankers?.map((name) => (name === "joint" ? "joint n-grams" : name)).join(" and ");
    const parts = result.trees.length;
    fill(this.legend, parts > 1 && h("span", `The text was answered in ${parts} parts; this is the search for the first.`),
      names && h("span", `The answer was chosen among the finished ones by ${names}, not by the network's score alone.`),
      done && result.greedy && this.showGreedy && h("span", greedyNote(result, greedy)));
    if (!this.element.querySelector(".pointed")) this.point(null);
  }

  /** The finished hypotheses, ordered by their score with the length penalty that is set. */
  ranked(result = this.result) {
    const nodes = result?.trees[0] ?? [];
    const penalty = this.penalty ?? option("length_penalty");
    return nodes.filter((node) => node.status === "finished" && (result !== this.result || node.step <= this.until))
      .map((node) => ({node, tokens: path(nodes, node), score: normalised(node.total, node.step + 1, penalty)}))
      .sort((one, other) => other.score - one.score);
  }

  writeFinished() {
    if (this.compact) return;
    const rows = this.ranked();
    if (!rows.length) return fill(this.finished, this.nodes.length > 0 && h("p.quiet", "No hypothesis has finished yet."));
    const best = rows[0].score;
    fill(this.finished, h("h3", "Finished hypotheses ", help("A hypothesis is finished when it ends. They are ordered by the sum of their log probabilities, divided by a power of their length, so that long answers are not at a disadvantage.", "score = Σ log p / length^a")),
      h("ol.ranking", rows.slice(0, 12).map(({node, tokens, score}, place) => h("li", {class: place ? "" : "first"},
        h("span.figure.quiet", String(place + 1)), link(joined(tokens.map((one) => one.token), this.result.model) || "(empty)", () => this.choose(node)),
        h("span.bar-cell", h("span.score-bar", {style: {width: `${Math.max(2, 100 * Math.exp(3 * (score - best)))}%`}})),
        h("span.figure", number(score)), h("span.figure.quiet", `Σ ${number(node.total)} / ${node.step + 1}`)))));
  }

  /** What a steering has changed. */
  writeChanged(done) {
    const {ghost} = this;
    const before = ghost?.output;
    const now = this.result.output;
    if (!before || !now || !done) return fill(this.changed);
    const others = this.ranked(ghost).map((one) => one.score);
    const rank = 1 + others.filter((score) => score > now.score).length;
    fill(this.changed, h("strong", "Steered. "), `Score ${number(before.score)} → ${number(now.score)}`,
      others.length ? `; among the answers before it would be rank ${rank}. ` : ". ", before.text === now.text ? "The answer is the same." : `Before: ${before.text}`);
  }

  table() {
    const rows = this.nodes.map((node) => [node.step + 1, this.words(node), number(node.log_prob), number(node.total), number(node.score), node.winner ? `${node.status}, winner` : node.status]);
    return table("Candidates of each step, best first", ["step", "hypothesis", "log p of the last token", "sum of log p", "score", "status"], rows);
  }

  drawMinimap() {
    const {width, height, place, drawn} = this.drawing;
    const over = this.scroller.scrollWidth > this.scroller.clientWidth + 4 && !this.compact;
    this.minimap.toggleAttribute("hidden", !over);
    if (!over) return;
    this.minimap.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const marks = [...place.boxes.values()].filter(({node}) => drawn.has(node.id)).map(({node, x, y, width: wide}) =>
      rect(x, y, wide, 30, {class: drawn.get(node.id).box.getAttribute("class")}));
    this.frame = s("rect.frame", {y: 0, height});
    fill(this.minimap, marks, this.frame);
    this.showPlace();
  }

  showPlace() {
    const {scrollWidth, scrollLeft, clientWidth} = this.scroller;
    const scale = this.drawing.width / scrollWidth;
    if (this.frame) setAttributes(this.frame, {x: scrollLeft * scale, width: clientWidth * scale});
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

function greedyNote({greedy, output}, found) {
  const mark = h("span.dot", {"aria-hidden": "true"});
  if (greedy.text === output.text) return [mark, "Greedy search finds the same answer."];
  const lost = found.length < greedy.tokens.length ? ` Its path leaves the tree at step ${found.length + 1}.` : "";
  return [mark, `Greedy search writes “${greedy.text}” (score ${number(greedy.score)}); the beam's answer has ${number(output.score)}.${lost}`];
}

/** The player and the options of the search. */
class Controls {
  constructor(beam) {
    this.beam = beam;
    const slide = (id, min, name, whileMoved) => {
      const text = h("output.figure", {for: id});
      const field = h("input", {id, type: "range", min, max: 2, step: 0.1, onchange: () => setOptions({[name]: Number(field.value)}), oninput: () => {
        fill(text, number(Number(field.value), 1));
        whileMoved?.(Number(field.value));
      }});
      return {field, text};
    };
    const group = (...fields) => h("span.group", fields);
    this.playButton = tool("Play", "▶", () => this.toggle());
    this.slider = h("input", {type: "range", min: 0, max: 1, value: 1, "aria-label": "Step shown", oninput: () => beam.stop(Number(this.slider.value) - 1)});
    this.stepText = h("span.figure.quiet.step-text");
    this.speed = select({"aria-label": "Speed"}, [[0.5, "½×"], [1, "1×"], [2, "2×"], [4, "4×"]]);
    this.speed.value = 1;
    this.kind = select({id: "search-kind", onchange: () => this.chooseKind()}, [["beam", "beam search"], ["greedy", "greedy search"], ["sample", "sampling"]]);
    this.width = h("input", {type: "number", min: 1, id: "beam-width", onchange: () => this.chooseWidth()});
    this.penalty = slide("length-penalty", 0, "length_penalty", (value) => this.sort(value));
    this.patience = select({id: "patience", onchange: () => setOptions({patience: Number(this.patience.value) || null})}, [["", "shrinks"], [1, "stays full"], [2, "stays full, twice as long"]]);
    this.temperature = slide("temperature", 0.1, "temperature");
    this.unit = select({"aria-label": "Numbers", onchange: () => beam.drawing.show(this.unit.value === "p")}, [["log", "log p"], ["p"]]);
    this.greedy = h("input", {type: "checkbox", id: "greedy", checked: true, onchange: () => this.toggleGreedy()});
    this.ofBeam = [group(label("beam", this.width), label("the beam", this.patience)), label("greedy path", this.greedy)];
    this.ofSample = group(label("temperature", this.temperature.field, this.temperature.text),
      tool("Draw another sample", "draw again", () => setOptions({seed: Math.round(Math.random() * 1e6) + 1})));
    this.element = h("div.controls",
      group(tool("To the start", "⇤", () => beam.stop(-1)), this.playButton, tool("One step on", "⇥", () => this.step()), this.slider, this.stepText, this.speed),
      group(label("search", this.kind), this.ofBeam[0], label("length penalty", this.penalty.field, this.penalty.text), this.ofSample),
      group(label("numbers", this.unit), this.ofBeam[1], tool("Smaller", "−", () => beam.zoomBy(1 / 1.2)), tool("Larger", "+", () => beam.zoomBy(1.2))));
  }

  toggle() {
    const {beam} = this;
    if (beam.pause) return beam.stop(beam.until);
    beam.play(SLOW / Number(this.speed.value), beam.until + 1 >= beam.steps ? -1 : beam.until);
    beam.draw(false);
  }

  step() {
    const {until, steps} = this.beam;
    this.beam.stop(Math.min(steps - 1, until === Infinity ? 0 : until + 1));
  }

  chooseKind() {
    const kind = this.kind.value;
    const own = facts()?.decoding.beam;
    setOptions({sample: kind === "sample" || null, beam: kind === "greedy" ? 1 : kind === "beam" && own < 2 ? 4 : null, temperature: null, seed: null, patience: null});
  }

  chooseWidth() {
    this.width.value = clamp(Math.round(this.width.value), 1, widest());
    setOptions({beam: Number(this.width.value)});
  }

  sort(penalty) {
    this.beam.penalty = penalty;
    this.beam.writeFinished();
  }

  toggleGreedy() {
    this.beam.showGreedy = this.greedy.checked;
    this.beam.draw(false);
  }

  show() {
    const {steps, until, pause, penalty} = this.beam;
    const reached = Math.min(steps, until + 1);
    this.slider.max = steps;
    if (document.activeElement !== this.slider || pause) this.slider.value = reached;
    fill(this.stepText, `step ${reached} of ${steps}`);
    fill(this.playButton, pause ? "❙❙" : "▶");
    const name = pause ? "Pause" : "Play";
    setAttributes(this.playButton, {"aria-label": name, title: name});
    this.kind.value = option("sample") ? "sample" : option("beam") < 2 ? "greedy" : "beam";
    this.width.max = widest();
    this.width.value = option("beam");
    this.patience.value = state.options.patience ?? "";
    for (const [{field, text}, value] of [[this.penalty, penalty ?? option("length_penalty")], [this.temperature, option("temperature")]]) {
      field.value = value;
      fill(text, number(Number(field.value), 1));
    }
    for (const part of this.ofBeam) part.hidden = this.kind.value !== "beam";
    this.ofSample.hidden = this.kind.value !== "sample";
  }
}

const label = (text, ...fields) => h("label", h("span", text), fields);

const widest = () => Math.min(20, facts()?.target_tokens ?? 20);
