// The worked figure: rows from the encoder states to the new state, columns that stay aligned.

import {clamp, copy, cut, heat, number, probability, rect, s, shortened, shown, signed, svg, text, textWidth} from "./dom.js";

const LABEL = 280; // width of the names and formulas
const BAR = 88; // height of a vector that stands upright
const CELL = 8; // of a vector that lies: one value
const GAP = 18; // between rows

const TITLES = {
  states: "encoder states", word: "the word before", before: "decoder state before", scores: "scores", distribution: "softmax", weights: "softmax",
  context: "context", after: "new decoder state", output: "attentional output", fed: "input feeding", pooled: "the source as one vector", first: "first decoder state",
  cells_before: "memory cell before", cells_after: "new memory cell", input: "word and position", gate: "gate", copied: "copied", state: "the state of the token", final: "output of the last layer",
  own_query: "query, to what was written", own_keys: "keys", own_values: "values", own_matrix: "all scores, masked",
  cross_query: "query, to the source", cross_keys: "keys of the source", cross_values: "values of the source", cross_matrix: "all scores",
};
const OF_BOTH = {scores: "scores of this step", weights: "softmax"}; // of self-attention and of attention to the source
const titleOf = (name) => TITLES[name] ?? OF_BOTH[name.replace(/^(own|cross)_/, "")] ?? name;
const SHARES = ["weights", "distribution", "own_weights", "cross_weights", "copied"];
const SUMS = {context: ["states", "weights"], own_sum: ["own_values", "own_weights"], cross_sum: ["cross_values", "cross_weights"]};
const AXES = {source: "source_tokens", input: "inputs", key: "keys"};

/** The whole figure. */
export function worksheet(step) {
  const names = {...step, keys: step.source_tokens.length && step.parts.some((part) => part.axes.includes("key") && part.values.length > step.inputs.length) ? [...step.source_tokens, ...step.inputs] : step.inputs};
  const parts = Object.fromEntries(step.parts.map((part) => [part.name, part]));
  const column = columnWidth(step.parts, names);
  let [y, width] = [8, LABEL + 420];
  const rows = [];
  const add = (title, symbol, formula, drawing, values) => {
    const lines = formulaLines(symbol, formula);
    rows.push(s("g", {transform: `translate(0 ${y})`, class: "sheet-row"}, label(rows.length + 1, title, lines, values), s("g", {transform: `translate(${LABEL} 0)`}, drawing.element)));
    y += Math.max(drawing.height, 28 + 17 * lines.length) + GAP;
    width = Math.max(width, LABEL + drawing.width + 12);
  };
  for (const part of step.parts) {
    const {name, symbol, formula, values} = part;
    const sum = SUMS[name]?.map((one) => parts[one]);
    if (sum?.every(Boolean)) add(`weighted ${name === "context" ? "states" : "values"} and their sum`, symbol, formula, weighted(...sum, part, column), values);
    else add(name === "weights" && parts.distribution ? "the position that is read" : titleOf(name), symbol, formula, drawn(part, names, column), values);
  }
  add("the most probable tokens", "", "softmax over the vocabulary", tokens(step), step.most_probable);
  if (step.layers.length) add("the residual stream", "", "norms: before, what is added, after", residual(step), step.layers);
  const figure = svg("worksheet", width, y, `The step that writes ${shown(step.token)}, worked out`, rows);
  figure.setAttribute("role", "group"); // its rows are buttons
  return figure;
}

function columnWidth(parts, names) {
  const axes = parts.flatMap((part) => part.axes).filter((axis) => axis in AXES);
  return clamp(12 + Math.max(0, ...axes.flatMap((axis) => names[AXES[axis]]).map((one) => textWidth(shown(one), 13))), 48, 84);
}

/** The number, name and formula of a row; a click copies its values. */
function label(count, title, lines, values) {
  const copied = () => copy(JSON.stringify(values), `${title}: `);
  return s("g.sheet-label", {role: "button", tabindex: 0, "aria-label": `Copy the values of ${title}`, onclick: copied, onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), copied())},
    rect(0, 0, LABEL - 24, 44, {class: "hit"}), text("start.small", 0, 14, String(count)), text("start.title", 22, 14, title),
    lines.map((line, place) => text("start.formula", 22, 34 + 17 * place, set(line))));
}

/** The lines below a name: the formula, or the symbol alone. */
function formulaLines(symbol, formula) {
  const bare = formula.replace(/ over the real positions$/, "");
  return wrapped(!bare ? symbol : bare.includes("=") || bare.includes("→") || !symbol ? bare : `${symbol} = ${bare}`, LABEL - 40);
}

/** A formula with its indices below the line: `s_{i-1}` and `h_j`. */
function set(line) {
  return line.split(/(_\{[^}]*\}|_\w+)/).flatMap((part) => {
    if (!part.startsWith("_")) return [part];
    const index = part.slice(1).replace(/[{}]/g, "");
    return [s("tspan", {dy: 3.5, "font-size": 9.5}, index.replace("-", "−")), s("tspan", {dy: -3.5}, "\u200b")];
  });
}

function wrapped(words, width) {
  const lines = [];
  for (const word of words.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && textWidth(`${last} ${word}`, 12) * 1.12 < width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** A quantity by its axes: bars over positions, numbers over positions, a matrix, or vectors that lie. */
function drawn(part, names, column) {
  const [first, second] = part.axes;
  if (part.axes.length === 0) return plain(number(part.values, 3));
  if (first in AXES && second in AXES) return scoreMatrix(part, names);
  if (first in AXES && second) return bars(part.values, names[AXES[first]], column, strongest(part.values));
  if (first in AXES) return numbers(part, names[AXES[first]], column);
  return strips(part.axes.length > 1 ? part.values : [part.values]);
}

const strongest = (values) => Math.max(1e-9, ...[values].flat(Infinity).map((value) => Math.abs(value ?? 0)));

const plain = (words) => ({element: text("start", 0, 16, words), width: 80, height: 24});

function upright(values, x, most, width = 22) {
  const cell = BAR / values.length;
  return [values.map((value, place) => rect(x, place * cell, width, cell + 0.3, {fill: signed((value ?? 0) / most)})), rect(x, 0, width, BAR, {class: "outline"})];
}

function names_(tokens, column, y) {
  return tokens.map((token, place) => text("axis", (place + 0.5) * column, y, shortened(shown(token), column - 4, 13)));
}

/** A vector for each position, standing, with the position's name below. */
function bars(values, tokens, column, most) {
  const element = [values.map((vector, place) => upright(vector, (place + 0.5) * column - 11, most)), names_(tokens, column, BAR + 16)];
  return {element, width: values.length * column, height: BAR + 20};
}

/** A number for each position; shares are tinted. */
function numbers(part, tokens, column) {
  const shares = SHARES.includes(part.name);
  const most = part.values.indexOf(Math.max(...part.values.map((value) => value ?? -Infinity)));
  const element = part.values.map((value, place) => [
    shares && rect(place * column + 2, 0, column - 4, 24, {rx: 3, fill: heat(value), class: "share-cell"}),
    text(`${place === most ? "most" : ""}.${shares && value > 0.55 ? "on-heat" : ""}`, (place + 0.5) * column, 16.5, shares ? value.toFixed(2) : number(value)),
  ]);
  return {element: [element, names_(tokens, column, 40)], width: part.values.length * column, height: 44};
}

/** The states, each as strong as its weight, and the sum that they make. */
function weighted(states, weights, sum, column) {
  const most = strongest(states.values);
  const x = states.values.length * column;
  const element = [
    states.values.map((vector, place) => upright(vector.map((value) => value * weights.values[place]), (place + 0.5) * column - 11, most)),
    weights.values.map((value, place) => text("axis", (place + 0.5) * column, BAR + 16, number(value))),
    text("equals", x + 10, BAR / 2 + 6, "="), upright(sum.values, x + 26, most, 26), text("axis", x + 39, BAR + 16, set(sum.symbol)),
  ];
  return {element, width: x + 70, height: BAR + 20};
}

/** Vectors that lie: one for each layer. */
function strips(vectors) {
  const most = strongest(vectors);
  const width = vectors[0].length * CELL;
  const element = vectors.map((vector, layer) => [
    vector.map((value, place) => rect(place * CELL, layer * 24 + 4, CELL + 0.3, 16, {fill: signed((value ?? 0) / most)})),
    rect(0, layer * 24 + 4, width, 16, {class: "outline"}),
    vectors.length > 1 && text("small.start", width + 8, layer * 24 + 17, `layer ${layer + 1}`),
  ]);
  return {element, width: width + 60, height: vectors.length * 24};
}

/** The scores of all steps; what is masked is grey. */
function scoreMatrix(part, names) {
  const cell = clamp(Math.floor(480 / part.values.length), 10, 26);
  const most = strongest(part.values);
  const [rows, columns] = part.axes.map((axis) => names[AXES[axis]]);
  const left = Math.min(90, Math.max(...rows.map((one) => textWidth(shown(one), 11)))) + 8;
  const element = [
    part.values.map((row, t) => row.map((value, j) => rect(left + j * cell, t * cell, cell - 1, cell - 1, value === null ? {class: "masked"} : {fill: signed(value / most)}, s("title", `${shown(rows[t])} → ${shown(columns[j])}: ${number(value)}`)))),
    rows.map((name, t) => text(t === names.step ? "end.small.most" : "end.small", left - 6, (t + 0.5) * cell + 4, cut(shown(name), 86, 11))),
    rect(left - 1, names.step * cell - 1, columns.length * cell + 1, cell + 1, {class: "frame-row"}),
  ];
  return {element, width: left + columns.length * cell, height: rows.length * cell + 4};
}

function tokens({most_probable: best, token_id: chosen}) {
  const element = best.map((one, place) => {
    const y = place * 22;
    const on = one.token_id === chosen;
    return [
      text(on ? "end.most" : "end", 100, y + 14, cut(shown(one.token), 96, 13)),
      rect(110, y + 3, 240, 13, {class: "track", rx: 2}), rect(110, y + 3, Math.max(1, 240 * one.probability), 13, {rx: 2, class: on ? "bar chosen" : "bar"}),
      text("start", 358, y + 14, probability(one.probability)),
      one.copied !== undefined && text("start.small", 408, y + 14, `copied: ${probability(one.copied)}`),
    ];
  });
  return {element, width: 500, height: best.length * 22};
}

const KINDS = {own: "to itself", cross: "to the source", feedforward: "feed-forward"};

/** The norms of the residual stream, sublayer by sublayer. */
function residual({layers}) {
  const most = Math.max(...layers.flatMap(({norms}) => Object.values(norms)));
  const width = 92;
  const element = layers.map(({layer, kind, norms}, place) => {
    const x = place * width;
    return [
      ["before", "output", "after"].map((name, bar) => {
        const height = (60 * norms[name]) / most;
        return [rect(x + 6 + bar * 26, 64 - height, 20, height, {class: name === "output" ? "bar added" : "bar"}), text("small", x + 16 + bar * 26, 60 - height, number(norms[name], 1))];
      }),
      text("small", x + 42, 80, `${layer} ${KINDS[kind]}`),
    ];
  });
  return {element: s("g", {transform: "translate(0 10)"}, element), width: layers.length * width, height: 100};
}
