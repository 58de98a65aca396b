// Attention: lines between words, a matrix, every layer and head; over pictures and sounds; beside leaving a part out.

import {post} from "./api.js";
import {choice, clamp, figure, fill, h, heat, help, number, probability, rect, s, setAttributes, shortened, shown, signed, svg, table, text, textWidth} from "./dom.js";
import {drawOver} from "./pictures.js";
import {body, explain, named} from "./search.js";
import {change, facts, setParams, state} from "./store.js";

const KINDS = {cross: "answer → source", own: "answer → answer", source: "source → source"};
const NOT_AN_EXPLANATION = "Attention says from where the model takes its context, not why it writes a word: other weights can give the same answer. “Leave one out” measures something else: how much less probable the answer becomes without a part of the source.";

export class Attention {
  constructor() {
    this.controls = h("div.controls");
    this.heads = h("div.thumbnails", {role: "group", "aria-label": "Layers and heads"});
    this.drawing = h("div.attention-drawing", {tabindex: 0, role: "group", "aria-label": "Lines and matrix"});
    this.reading = h("p.pointed-line");
    this.element = h("div.attention-view", this.controls, this.heads, figure(this.drawing, () => this.table()), this.reading, h("p.note", NOT_AN_EXPLANATION));
    this.more = new WeakMap(); // of a result: {heads, occlusion, source}, loaded when they are looked at
  }

  update(changed) {
    const {result} = state;
    this.element.classList.toggle("without", !result?.output);
    if (!result?.output) {
      this.now = null;
      fill(this.drawing);
      return fill(this.reading, result ? "" : "Type something above to see where the model looks.");
    }
    const redrawn = ["result", "params", "theme", "view"].some((name) => changed.has(name));
    if (redrawn || (this.now?.files && changed.has("position"))) this.draw();
    else if (changed.has("position")) this.select();
  }

  get params() {
    return {kind: "cross", layer: "", head: "", mode: "attention", merged: "1", ...state.params};
  }

  set(patch) {
    setParams(patch);
  }

  /** What was loaded beside the answer; `name` is loaded if it is missing, and the view drawn again. */
  load(name, request) {
    const known = this.more.get(state.result) ?? {};
    this.more.set(state.result, known);
    if (name in known) return known[name];
    known[name] = null;
    const {result} = state;
    request().catch((error) => ({error})).then((found) => {
      known[name] = found;
      if (result === state.result) this.draw();
    });
    return null;
  }

  loadHeads() {
    const {search, n_best: _, ...asked} = body(state.result);
    return this.load("heads", async () => (await post("/v1/generate", {...asked, return: facts().attention ? ["attention", "heads"] : ["heads"]})).outputs.heads);
  }

  get occlusion() {
    return {answer: state.result.output.token_ids, by: this.params.merged === "1" ? "word" : "token"};
  }

  loadOcclusion() {
    return this.load(`occlusion by ${this.occlusion.by}`, () => explain("/v1/explain/occlusion", this.occlusion));
  }

  loadSource() {
    return this.load("source", () => explain("/v1/explain/source"));
  }

  /** The request behind the drawing, if it is not that of the answer. */
  get request() {
    const {result} = state;
    return result?.output && this.params.mode === "leave" ? {path: "/v1/explain/occlusion", body: {inputs: result.input, ...this.occlusion, ...named(result.model)}} : null;
  }

  draw() {
    const now = this.shownNow();
    this.now = now;
    this.showControls(now);
    if (!now.weights) return fill(this.drawing, h("p.quiet", now.problem ?? "…"));
    const read = (row, column) => this.read(row, column);
    fill(this.drawing, now.files ? drawOver(now, this.loadSource(), (place) => change({position: place})) : [lines(now, read), matrix(now, read)]);
    this.select();
  }

  /** The weights that are to be drawn, with the names of rows and columns. */
  shownNow() {
    const {output} = state.result;
    const {mode, kind, layer, head, merged} = this.params;
    if (mode === "leave") return this.leftOut();
    const heads = this.loadHeads();
    if (heads?.error) return {problem: heads.error.message};
    const kinds = heads ? Object.keys(KINDS).filter((name) => heads[name]) : [];
    const chosen = kinds.includes(kind) ? kind : kinds[0];
    const one = heads && chosen ? pick(heads[chosen], layer, head) : null;
    const weights = one ?? (chosen && chosen !== "cross" ? null : output.attention?.weights);
    if (!weights) return {problem: heads ? this.without() : "…", heads, kinds};
    const seen = output.attention ?? heads;
    const source = seen.source_tokens.map(shown);
    const written = output.tokens.map(shown);
    const rows = chosen === "source" ? source : weights.length > written.length ? [...source, ...written] : written; // a language model has rows for its prompt
    const columns = chosen === "own" ? ["<s>", ...rows.slice(0, -1)] : source;
    const made = {weights, rows, columns, heads, kinds, kind: chosen, copied: seen.copied, spans: seen.spans};
    made.files = (chosen ?? "cross") === "cross" && made.spans?.some((span) => span.kind === "image" || span.kind === "audio" || span.kind === "frames") ? made.spans : null;
    if (made.files) return {...made, words: merged === "1" ? seen.words : null};
    return merged === "1" ? mergedWords(made, seen) : made;
  }

  /** Why there is nothing to draw. */
  without() {
    if (facts().attention) return "A text that was answered in parts has no one attention.";
    if (facts().kind === "tagger") return "A tagger has no attention: each label is chosen from the state of its own token. “Leave one out” measures how much each part of the source matters to it.";
    return "This model has no attention: its decoder sees the source only through one vector. “Leave one out” still measures how much each part of the source matters.";
  }

  leftOut() {
    const found = this.loadOcclusion();
    if (!found || found.error) return {problem: found?.error.message ?? "…"};
    const {output} = state.result;
    const files = overParts(found.parts, output.attention?.spans);
    const words = this.params.merged === "1" ? output.attention?.words : null;
    const groups = !files && words ? words : output.tokens.map((text, place) => ({text, first: place, last: place}));
    const weights = groups.map(({first, last}) => found.differences.map((row) => row.slice(first, last + 1).reduce((sum, value) => sum + value, 0)));
    const totals = found.parts.map((_, part) => weights.reduce((sum, row) => sum + row[part], 0)); // of the tokens that were written
    return {weights, rows: groups.map(({text}) => shown(text)), columns: found.parts.map((part) => shown(part.text)), totals, signed: true, scale: Math.max(0.01, ...weights.flat().map(Math.abs)), files, words};
  }

  showControls({heads, kinds = [], kind, files}) {
    const {mode, merged, layer, head} = this.params;
    const press = (name, on, patch) => choice(name, on, () => this.set(patch));
    const groupable = ["bpe", "unigram"].includes(facts().target?.tokens) || facts().sources.some((source) => ["bpe", "unigram"].includes(source.tokens));
    fill(this.controls,
      h("div.group", press("attention", mode === "attention", {mode: null}), press("leave one out", mode === "leave", {mode: "leave"}), help(NOT_AN_EXPLANATION)),
      mode === "attention" && kinds.length > 1 ? h("div.group", kinds.map((name) => press(KINDS[name], name === kind, {kind: name, layer: null, head: null}))) : null,
      groupable && !files?.every((span) => span.kind === "image") ? h("label", h("input", {type: "checkbox", checked: merged === "1", onchange: (event) => this.set({merged: event.currentTarget.checked ? null : "0"})}), "whole words") : null);
    const table_ = mode === "attention" && heads && kind ? heads[kind] : null;
    if (!table_ || table_.flat().length < 2) return fill(this.heads);
    fill(this.heads, press("mean of all", layer === "", {layer: null, head: null}),
      table_.map((row, l) => h("div.layer", h("span.quiet", `layer ${l + 1}`), row.map((weights, n) => {
        const [patch, name] = [{layer: String(l + 1), head: String(n + 1)}, `layer ${l + 1}, head ${n + 1}`];
        const button = press(thumbnail(weights), layer === patch.layer && head === patch.head, patch);
        setAttributes(button, {title: name, "aria-label": name});
        return button;
      }))));
  }

  /** True if each row is a token of the answer. */
  get byToken() {
    return this.now.rows.length === state.result.output.tokens.length;
  }

  read(row, column) {
    const {weights, rows, columns, signed: differs} = this.now;
    if (row !== null && this.byToken && row !== state.position) change({position: row});
    mark(this.drawing, row, column);
    if (row === null) return column === null ? this.select() : fill(this.reading, `Who looked at “${columns[column]}”.`);
    if (column === null) return fill(this.reading, best(this.now, row));
    const value = weights[row][column];
    fill(this.reading, differs ? `Without “${columns[column]}” log p of “${rows[row]}” falls by ${number(value)}.` : `“${rows[row]}” → “${columns[column]}”: ${probability(value)}`);
  }

  select() {
    if (!this.now?.weights) return;
    const row = this.byToken ? Math.min(state.position, this.now.rows.length - 1) : null;
    mark(this.drawing, row, null);
    if (row !== null) fill(this.reading, best(this.now, row));
  }

  table() {
    if (!this.now?.weights) return null;
    const {weights, rows, columns} = this.now;
    return table("Rows: the words that were written; columns: what they looked at", ["", ...columns], weights.map((row, place) => [rows[place], ...row.map((value) => number(value))]));
  }

  picture() {
    return this.drawing.querySelector("svg.matrix, svg.over");
  }

  data() {
    const {rows, columns, weights} = this.now ?? {};
    return weights && {model: state.model, input: state.result.input, rows, columns, weights};
  }
}

/** The spans of sources that are no texts, if each of their positions was left out by itself. */
function overParts(parts, spans) {
  const files = spans?.filter(({kind}) => ["image", "audio", "frames"].includes(kind)) ?? [];
  const alone = parts.every(({positions}, place) => positions.length === 1 && positions[0] === place);
  return files.length && alone ? files : null;
}

function pick(layers, layer, head) {
  const one = layers[layer - 1]?.[(head || 1) - 1];
  if (one) return one;
  const all = layers.flat();
  return all[0].map((row, t) => row.map((_, j) => all.reduce((sum, one) => sum + one[t][j], 0) / all.length));
}

/** Pieces joined to words: weights to the pieces of a word add up, those of its own pieces are averaged. */
function mergedWords(made, {words, source_words: sourceWords}) {
  const rowGroups = made.kind === "source" ? sourceWords : words;
  const columnGroups = made.kind === "own" ? null : sourceWords;
  if (!rowGroups || !columnGroups) return made;
  const weights = rowGroups.map(({first, last}) => columnGroups.map(({first: from, last: to}) => {
    const sum = made.weights.slice(first, last + 1).flatMap((row) => row.slice(from, to + 1)).reduce((one, other) => one + other, 0);
    return sum / (last - first + 1);
  }));
  return {...made, weights, rows: rowGroups.map((group) => shown(group.text)), columns: columnGroups.map((group) => shown(group.text)), copied: rowGroups.length === made.rows.length ? made.copied : null};
}

function best({weights, rows, columns, signed: differs, copied}, row) {
  const value = Math.max(...weights[row]);
  const column = weights[row].indexOf(value);
  const copies = copied ? ` It was copied with probability ${probability(copied[row])}.` : "";
  return (differs ? `“${rows[row]}” needs “${columns[column]}” most: without it log p falls by ${number(value)}.` : `“${rows[row]}” looks most at “${columns[column]}”: ${probability(value)}.`) + copies;
}

function mark(drawing, row, column) {
  for (const part of drawing.querySelectorAll("[data-row], [data-column]")) {
    const [r, c] = [part.dataset.row, part.dataset.column].map((one) => (one === undefined ? null : Number(one)));
    const off = (chosen, own) => chosen !== null && own !== null && own !== chosen;
    part.classList.toggle("faint", off(row, r) || off(column, c));
    part.classList.toggle("here", (c === null && r === row) || (r === null && c === column));
  }
}

const ROW = 26;
const FALLS = "fall of log p"; // what the tints of "leave one out" stand for

/** Source on the left, answer on the right; the darker a line, the larger the weight. */
function lines({weights, rows, columns, signed: differs, scale = 1}, read) {
  const wide = (names) => clamp(widest(names, 15), 40, 180) + 12;
  const [left, right, between, most] = [wide(columns), wide(rows), 180, Math.max(rows.length, columns.length)];
  const height = 12 + ROW * most;
  const at = (count, place) => 6 + ROW * (place + (1 + most - count) / 2);
  const curves = weights.flatMap((row, t) => row.map((value, j) => {
    const strength = Math.abs(value) / scale;
    if (strength < 0.02) return null;
    const [y1, y2, x1, x2] = [at(columns.length, j), at(rows.length, t), left, left + between];
    return s("path", {d: `M${x1} ${y1}C${x1 + 70} ${y1} ${x2 - 70} ${y2} ${x2} ${y2}`, "stroke-opacity": Math.min(1, 0.04 + 0.96 * strength).toFixed(3), "stroke-width": (0.5 + 3 * strength).toFixed(2), class: differs && value < 0 ? "below" : "", "data-row": t, "data-column": j});
  }));
  const word = (name, x, y, anchor, dataset, enter) => s(`text.word.${anchor}`, {x, y: y + 5, ...dataset, onpointerenter: enter, onpointerleave: () => read(null, null)}, shortened(name, 176, 15));
  return svg("links", left + between + right, height, "Lines from each word of the answer to where it looked",
    curves, columns.map((name, j) => word(name, left - 8, at(columns.length, j), "end", {"data-column": j}, () => read(null, j))),
    rows.map((name, t) => word(name, left + between + 8, at(rows.length, t), "start", {"data-row": t}, () => read(t, null))));
}

/** A row for each word that was written, a column for each that was read. */
export function matrix({weights, rows, columns, signed: differs, scale = 1, copied, totals, room = 560}, read) {
  const cell = clamp(Math.floor(room / Math.max(rows.length, columns.length)), 14, 34);
  const left = clamp(widest(rows, 13), 30, 150) + 10;
  const named = widest(columns, 13);
  const upright = named > cell;
  const y0 = upright ? clamp(named, 24, 130) + 12 : 28;
  const [right, end] = [left + columns.length * cell, y0 + rows.length * cell];
  const width = left + Math.max(right - left + (copied ? cell + 14 : 0), differs ? 136 + textWidth(FALLS, 12) : 24 * 5) + 12; // the scale below has its room, too
  const height = end + (totals ? cell + 56 : 42);
  const square = (x, y, fill_, more) => rect(x, y, cell - 1, cell - 1, {fill: fill_, ...more});
  const tint = (value) => (differs ? signed(value / scale) : heat(value / scale));
  const most = Math.max(0.01, ...(totals ?? []).map(Math.abs));
  const label = (name, j) => s("text.column", upright
    ? {transform: `translate(${left + (j + 0.5) * cell + 4} ${y0 - 6}) rotate(-90)`, class: "start", "data-column": j}
    : {x: left + (j + 0.5) * cell, y: y0 - 8, "data-column": j}, shortened(name, 124, 13));
  const drawn = svg("matrix", width, height, differs ? "How much less probable each word becomes without a part of the source" : "Attention of each word of the answer to the source",
    rect(left - 1, y0 - 1, right - left + 1, end - y0 + 1, {class: "ground"}),
    weights.map((row, t) => row.map((value, j) => square(left + j * cell, y0 + t * cell, tint(value), {onpointerenter: () => read(t, j)}))),
    columns.map(label), rows.map((name, t) => s("text.row.end", {x: left - 8, y: y0 + (t + 0.5) * cell + 4, "data-row": t}, shortened(name, 146, 13))),
    copied && [text("small", right + 8 + cell / 2, y0 - 8, "copied"), copied.map((value, t) => square(right + 8, y0 + t * cell, heat(value)))],
    totals && [totals.map((value, j) => square(left + j * cell, end + 8, signed(value / most))), text("end.small", left - 8, end + 12 + cell / 2, "all")],
    scaleBar(left, height - 22, scale, differs));
  drawn.addEventListener("pointerleave", () => read(null, null));
  return drawn;
}

const widest = (names, size) => Math.max(...names.map((name) => textWidth(name, size)));

/** The scale of the tints. */
function scaleBar(x, y, most, differs) {
  const steps = 24;
  const value = (step) => (differs ? (2 * step) / (steps - 1) - 1 : step / (steps - 1));
  return s("g", {transform: `translate(${x} ${y})`, class: "scale"},
    Array.from({length: steps}, (_, step) => rect(step * 5, 0, 5, 8, {fill: (differs ? signed : heat)(value(step))})), rect(0, 0, steps * 5, 8, {class: "outline"}),
    text("small.start", 0, 20, differs ? number(-most, 1) : "0"), text("small.end", steps * 5, 20, number(most, differs ? 1 : most < 1 ? 2 : 0)),
    differs && text("small.start", steps * 5 + 8, 8, FALLS));
}

function thumbnail(weights) {
  const canvas = h("canvas", {width: weights[0].length, height: weights.length, "aria-hidden": "true"});
  const pen = canvas.getContext("2d");
  weights.forEach((row, t) => row.forEach((value, j) => {
    pen.fillStyle = heat(value);
    pen.fillRect(j, t, 1, 1);
  }));
  return canvas;
}
