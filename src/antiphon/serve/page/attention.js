// Attention: lines between words, a matrix, every layer and head; over pictures and sounds; beside leaving a part out.

import {post} from "./api.js";
import {cut, figure, fill, h, heat, help, number, probability, s, shown, signed, table, textWidth, theme} from "./dom.js";
import {drawOver} from "./pictures.js";
import {body, named} from "./search.js";
import {change, facts, state} from "./store.js";

const KINDS = {cross: "answer → source", own: "answer → answer", source: "source → source"};
const NOT_AN_EXPLANATION = "Attention says from where the model takes its context, not why it writes a word: other weights can give the same answer. “Leave one out” measures something else: how much less probable the answer becomes without a part of the source.";

export class Attention {
  constructor() {
    this.controls = h("div", {class: "controls"});
    this.heads = h("div", {class: "thumbnails", role: "group", "aria-label": "Layers and heads"});
    this.drawing = h("div", {class: "attention-drawing", tabindex: 0, role: "group", "aria-label": "Lines and matrix"});
    this.reading = h("p", {class: "pointed-line"});
    this.note = h("p", {class: "note"}, NOT_AN_EXPLANATION);
    this.figure = figure(this.drawing, () => this.table());
    this.element = h("div", {class: "attention-view"}, this.controls, this.heads, this.figure, this.reading, this.note);
    this.more = new WeakMap(); // of a result: {heads, occlusion, source}, loaded when they are looked at
  }

  update(changed) {
    const {result} = state;
    this.element.classList.toggle("without", !result?.output);
    if (!result?.output) return fill(this.reading, result ? "" : "Type something above to see where the model looks.");
    const redrawn = ["result", "params", "theme", "view"].some((name) => changed.has(name));
    if (redrawn || (this.now?.files && changed.has("position"))) this.draw();
    else if (changed.has("position")) this.select();
    return undefined;
  }

  get params() {
    return {kind: "cross", layer: "", head: "", mode: "attention", merged: "1", ...state.params};
  }

  set(patch) {
    change({params: {...state.params, ...patch}});
  }

  /** What was loaded beside the answer; `name` is loaded if it is missing, and the view drawn again. */
  load(name, request) {
    const known = this.more.get(state.result) ?? {};
    this.more.set(state.result, known);
    if (name in known) return known[name];
    known[name] = null;
    const {result} = state;
    request().then((found) => (known[name] = found), (error) => (known[name] = {error})).then(() => result === state.result && this.draw());
    return null;
  }

  loadHeads() {
    return this.load("heads", async () => (await post("/v1/generate", {...body(state.result), search: undefined, n_best: undefined, return: facts().attention ? ["attention", "heads"] : ["heads"]}, {quiet: true})).outputs.heads);
  }

  loadOcclusion() {
    const {input, output} = state.result;
    const by = this.params.merged === "1" ? "word" : "token";
    return this.load(`occlusion by ${by}`, () => post("/v1/explain/occlusion", {inputs: input, answer: output.token_ids, by, ...named(state.model)}, {quiet: true}));
  }

  loadSource() {
    return this.load("source", () => post("/v1/explain/source", {inputs: state.result.input, ...named(state.model)}, {quiet: true}));
  }

  draw() {
    const shownNow = this.shownNow();
    this.showControls(shownNow);
    this.now = shownNow;
    if (!shownNow.weights) return void fill(this.drawing, h("p", {class: "quiet"}, shownNow.problem ?? "…"));
    if (shownNow.files) fill(this.drawing, drawOver(shownNow, this.loadSource(), (place) => change({position: place})));
    else fill(this.drawing, lines(shownNow, (row, column) => this.read(row, column)), matrix(shownNow, (row, column) => this.read(row, column)));
    this.select();
    return undefined;
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
    const press = (text, on, patch) => h("button", {type: "button", "aria-pressed": String(on), onclick: () => this.set(patch)}, text);
    const groupable = ["bpe", "unigram"].includes(facts().target?.tokens) || facts().sources.some((source) => ["bpe", "unigram"].includes(source.tokens));
    fill(this.controls,
      h("div", {class: "group"}, press("attention", mode === "attention", {mode: null}), press("leave one out", mode === "leave", {mode: "leave"}), help(NOT_AN_EXPLANATION)),
      mode === "attention" && kinds.length > 1 ? h("div", {class: "group"}, kinds.map((name) => press(KINDS[name], name === kind, {kind: name, layer: null, head: null}))) : null,
      groupable && !files?.every((span) => span.kind === "image") ? h("label", {}, h("input", {type: "checkbox", checked: merged === "1", onchange: (event) => this.set({merged: event.currentTarget.checked ? null : "0"})}), "whole words") : null);
    const table_ = mode === "attention" && heads && kind ? heads[kind] : null;
    if (!table_ || table_.flat().length < 2) return fill(this.heads);
    return fill(this.heads, h("button", {type: "button", "aria-pressed": String(layer === ""), onclick: () => this.set({layer: null, head: null})}, "mean of all"),
      table_.map((row, l) => h("div", {class: "layer"}, h("span", {class: "quiet"}, `layer ${l + 1}`), row.map((weights, n) => {
        const on = layer === String(l + 1) && head === String(n + 1);
        return h("button", {type: "button", "aria-pressed": String(on), title: `layer ${l + 1}, head ${n + 1}`, "aria-label": `layer ${l + 1}, head ${n + 1}`, onclick: () => this.set({layer: String(l + 1), head: String(n + 1)})}, thumbnail(weights));
      }))));
  }

  read(row, column) {
    const {weights, rows, columns, signed: differs} = this.now;
    if (row !== null && row < state.result.output.tokens.length && this.now.rows.length === state.result.output.tokens.length && row !== state.position) change({position: row});
    mark(this.drawing, row, column);
    if (row === null) return column === null ? this.select() : fill(this.reading, `Who looked at “${this.now.columns[column]}”.`);
    if (column === null) return fill(this.reading, best(this.now, row));
    const value = weights[row][column];
    return fill(this.reading, differs ? `Without “${columns[column]}” log p of “${rows[row]}” falls by ${number(value)}.` : `“${rows[row]}” → “${columns[column]}”: ${probability(value)}`);
  }

  select() {
    if (!this.now?.weights) return;
    const row = Math.min(state.position, this.now.rows.length - 1);
    if (this.now.rows.length === state.result.output.tokens.length) {
      mark(this.drawing, row, null);
      fill(this.reading, best(this.now, row));
    } else mark(this.drawing, null, null);
  }

  table() {
    if (!this.now?.weights) return h("p", {}, "Nothing is drawn.");
    const {weights, rows, columns} = this.now;
    return table("Rows: the words that were written; columns: what they looked at", ["", ...columns], weights.map((row, place) => [rows[place], ...row.map((value) => number(value))]));
  }

  picture() {
    return this.drawing.querySelector("svg.matrix, svg.over");
  }

  data() {
    return this.now?.weights && {model: state.model, input: state.result.input, rows: this.now.rows, columns: this.now.columns, weights: this.now.weights};
  }
}

/** The spans of sources that are no texts, if each of their positions was left out by itself. */
function overParts(parts, spans) {
  const files = spans?.filter(({kind}) => ["image", "audio", "frames"].includes(kind)) ?? [];
  const alone = parts.every(({positions}, place) => positions.length === 1 && positions[0] === place);
  return files.length && alone ? files : null;
}

function pick(layers, layer, head) {
  if (layer) return layers[layer - 1]?.[(head || 1) - 1] ?? null;
  const all = layers.flat();
  return all[0].map((row, t) => row.map((_, j) => all.reduce((sum, one) => sum + one[t][j], 0) / all.length));
}

/** Pieces joined to words: weights to the pieces of a word add up, those of its own pieces are averaged. */
function mergedWords(made, {words, source_words: sourceWords}) {
  const rowGroups = made.kind === "source" ? sourceWords : words;
  const columnGroups = made.kind === "own" ? null : sourceWords;
  if (!rowGroups || !columnGroups) return made;
  const weights = rowGroups.map(({first, last}) => columnGroups.map(({first: from, last: to}) => {
    let sum = 0;
    for (let t = first; t <= last; t += 1) for (let j = from; j <= to; j += 1) sum += made.weights[t][j];
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
    const {row: r, column: c} = part.dataset;
    const on = (row === null || r === undefined || Number(r) === row) && (column === null || c === undefined || Number(c) === column);
    part.classList.toggle("faint", !(on || (row === null && column === null)));
    part.classList.toggle("here", (row !== null && Number(r) === row && c === undefined) || (column !== null && Number(c) === column && r === undefined));
  }
}

const ROW = 26;

/** Source on the left, answer on the right; the darker a line, the larger the weight. */
function lines({weights, rows, columns, signed: differs, scale = 1}, read) {
  const wide = (names) => Math.min(180, Math.max(40, ...names.map((name) => textWidth(name, 15)))) + 12;
  const [left, right, between] = [wide(columns), wide(rows), 180];
  const height = 12 + ROW * Math.max(rows.length, columns.length);
  const at = (count, place) => 6 + ROW / 2 + place * ROW + ((Math.max(rows.length, columns.length) - count) * ROW) / 2;
  const curves = weights.flatMap((row, t) => row.map((value, j) => {
    const strength = Math.abs(value) / scale;
    if (strength < 0.02) return null;
    const [y1, y2, x1, x2] = [at(columns.length, j), at(rows.length, t), left, left + between];
    return s("path", {d: `M${x1} ${y1}C${x1 + 70} ${y1} ${x2 - 70} ${y2} ${x2} ${y2}`, "stroke-opacity": Math.min(1, 0.04 + 0.96 * strength).toFixed(3), "stroke-width": (0.5 + 3 * strength).toFixed(2), class: differs && value < 0 ? "below" : "", "data-row": t, "data-column": j});
  }));
  const word = (name, x, y, anchor, dataset, enter) => s("text", {x, y: y + 5, "text-anchor": anchor, class: `word ${anchor}`, tabindex: -1, ...dataset, onpointerenter: enter, onpointerleave: () => read(null, null)}, cut(name, 176, 15), s("title", {}, name));
  return s("svg", {class: "links", viewBox: `0 0 ${left + between + right} ${height}`, width: left + between + right, height, role: "img", "aria-label": "Lines from each word of the answer to where it looked"},
    curves, columns.map((name, j) => word(name, left - 8, at(columns.length, j), "end", {"data-column": j}, () => read(null, j))),
    rows.map((name, t) => word(name, left + between + 8, at(rows.length, t), "start", {"data-row": t}, () => read(t, null))));
}

/** A row for each word that was written, a column for each that was read. */
export function matrix({weights, rows, columns, signed: differs, scale = 1, copied, totals, room = 560}, read) {
  const cell = Math.max(14, Math.min(34, Math.floor(room / Math.max(rows.length, columns.length))));
  const left = Math.min(150, Math.max(30, ...rows.map((name) => textWidth(name, 13)))) + 10;
  const top = Math.min(130, Math.max(24, ...columns.map((name) => textWidth(name, 13)))) + 12;
  const upright = Math.max(...columns.map((name) => textWidth(name, 13))) > cell;
  const extra = copied ? cell + 14 : 0;
  const bottom = totals ? cell + 22 : 8;
  const width = left + Math.max(columns.length * cell + extra, 24 * 5) + 12; // the scale below has its room, too
  const height = (upright ? top : 28) + rows.length * cell + bottom + 34;
  const y0 = upright ? top : 28;
  const tint = (value) => (differs ? signed(value / scale) : heat(value / scale));
  const cells = weights.map((row, t) => row.map((value, j) => s("rect", {x: left + j * cell, y: y0 + t * cell, width: cell - 1, height: cell - 1, fill: tint(value), onpointerenter: () => read(t, j)})));
  const label = (name, j) => s("text", upright
    ? {transform: `translate(${left + (j + 0.5) * cell + 4} ${y0 - 6}) rotate(-90)`, class: "column start", "data-column": j}
    : {x: left + (j + 0.5) * cell, y: y0 - 8, class: "column", "data-column": j}, cut(name, 124, 13), s("title", {}, name));
  return s("svg", {class: "matrix", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": differs ? "How much less probable each word becomes without a part of the source" : "Attention of each word of the answer to the source", onpointerleave: () => read(null, null)},
    s("rect", {x: left - 1, y: y0 - 1, width: columns.length * cell + 1, height: rows.length * cell + 1, class: "ground"}),
    cells, columns.map(label), rows.map((name, t) => s("text", {x: left - 8, y: y0 + (t + 0.5) * cell + 4, class: "row end", "data-row": t}, cut(name, 146, 13), s("title", {}, name))),
    copied ? [s("text", {x: left + columns.length * cell + 8 + cell / 2, y: y0 - 8, class: "small"}, "copied"), copied.map((value, t) => s("rect", {x: left + columns.length * cell + 8, y: y0 + t * cell, width: cell - 1, height: cell - 1, fill: heat(value)}))] : null,
    totals ? [totals.map((value, j) => s("rect", {x: left + j * cell, y: y0 + rows.length * cell + 8, width: cell - 1, height: cell - 1, fill: signed(value / Math.max(0.01, ...totals.map(Math.abs)))})), s("text", {x: left - 8, y: y0 + rows.length * cell + 12 + cell / 2, class: "end small"}, "all")] : null,
    scaleBar(left, height - 22, scale, differs));
}

/** The scale of the tints. */
function scaleBar(x, y, most, differs) {
  const steps = 24;
  const value = (step) => (differs ? (2 * step) / (steps - 1) - 1 : step / (steps - 1));
  return s("g", {transform: `translate(${x} ${y})`, class: "scale"},
    Array.from({length: steps}, (_, step) => s("rect", {x: step * 5, y: 0, width: 5, height: 8, fill: differs ? signed(value(step)) : heat(value(step))})),
    s("rect", {x: 0, y: 0, width: steps * 5, height: 8, class: "outline"}),
    s("text", {x: 0, y: 20, class: "small start"}, differs ? number(-most, 1) : "0"), s("text", {x: steps * 5, y: 20, class: "small end"}, differs ? `log p falls by ${number(most, 1)}` : number(most, most < 1 ? 2 : 0)));
}

function thumbnail(weights) {
  const canvas = h("canvas", {width: weights[0].length, height: weights.length, "aria-hidden": "true", "data-theme-of": theme()});
  const pen = canvas.getContext("2d");
  weights.forEach((row, t) => row.forEach((value, j) => {
    pen.fillStyle = heat(value);
    pen.fillRect(j, t, 1, 1);
  }));
  return canvas;
}
