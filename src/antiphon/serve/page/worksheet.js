// The worked figure: rows from the encoder states to the new state, columns that stay aligned.

import {copy, cut, heat, number, probability, s, shown, signed, textWidth} from "./dom.js";

const LABEL = 280; // width of the names and formulas
const BAR = 88; // height of a vector that stands upright
const CELL = 5; // of a vector that lies: one value
const GAP = 18; // between rows

const TITLES = {
  states: "encoder states", word: "the word before", before: "decoder state before", scores: "scores", distribution: "softmax", weights: "softmax",
  context: "context", after: "new decoder state", output: "attentional output", fed: "input feeding", pooled: "the source as one vector", first: "first decoder state",
  cells_before: "memory cell before", cells_after: "new memory cell", input: "word and position", gate: "gate", copied: "copied", state: "the state of the token", final: "output of the last layer",
  own_query: "query, to what was written", own_keys: "keys", own_values: "values", own_matrix: "all scores, masked", own_scores: "scores of this step", own_weights: "softmax", own_sum: "weighted sum",
  cross_query: "query, to the source", cross_keys: "keys of the source", cross_values: "values of the source", cross_matrix: "all scores", cross_scores: "scores of this step", cross_weights: "softmax", cross_sum: "weighted sum",
};
const SHARES = ["weights", "distribution", "own_weights", "cross_weights", "copied"];
const SUMS = {context: ["states", "weights"], own_sum: ["own_values", "own_weights"], cross_sum: ["cross_values", "cross_weights"]};
const AXES = {source: "source_tokens", input: "inputs", key: "keys"};

/** The whole figure. */
export function worksheet(step) {
  const names = {...step, keys: step.source_tokens.length && step.parts.some((part) => part.axes.includes("key") && part.values.length > step.inputs.length) ? [...step.source_tokens, ...step.inputs] : step.inputs};
  const parts = Object.fromEntries(step.parts.map((part) => [part.name, part]));
  const column = columnWidth(step.parts, names);
  let [y, count, width] = [8, 0, LABEL + 420];
  const rows = [];
  const add = (title, symbol, formula, drawing, values) => {
    count += 1;
    const height = Math.max(drawing.height, 28 + 17 * formulas(symbol, formula).length);
    rows.push(s("g", {transform: `translate(0 ${y})`, class: "sheet-row"}, label(count, title, symbol, formula, values), s("g", {transform: `translate(${LABEL} 0)`}, drawing.element)));
    y += height + GAP;
    width = Math.max(width, LABEL + drawing.width + 12);
  };
  for (const part of step.parts) {
    const sum = SUMS[part.name]?.map((name) => parts[name]);
    if (sum?.every(Boolean)) add(part.name === "context" ? "weighted states and their sum" : "weighted values and their sum", part.symbol, part.formula, weighted(sum[0], sum[1], part, names, column), part.values);
    else add(part.name === "weights" && parts.distribution ? "the position that is read" : TITLES[part.name] ?? part.name, part.symbol, part.formula, drawn(part, names, column), part.values);
  }
  add("the most probable tokens", "", "softmax over the vocabulary", tokens(step), step.most_probable);
  if (step.layers.length) add("the residual stream", "", "norms: before, what is added, after", residual(step), step.layers);
  return s("svg", {class: "worksheet", viewBox: `0 0 ${width} ${y}`, width, height: y, role: "group", "aria-label": `The step that writes ${shown(step.token)}, worked out`}, rows);
}

function columnWidth(parts, names) {
  const longest = Math.max(...parts.flatMap((part) => part.axes.map((axis) => AXES[axis]).filter(Boolean)).map((axis) => Math.max(0, ...names[axis].map((one) => textWidth(shown(one), 13)))), 0);
  return Math.min(84, Math.max(48, longest + 12));
}

/** The number, name and formula of a row; a click copies its values. */
function label(count, title, symbol, formula, values) {
  const copied = () => copy(JSON.stringify(values), `${title}: `);
  return s("g", {class: "sheet-label", role: "button", tabindex: 0, "aria-label": `Copy the values of ${title}`, onclick: copied, onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), copied())},
    s("rect", {x: 0, y: 0, width: LABEL - 24, height: 44, class: "hit"}), s("text", {x: 0, y: 14, class: "start small"}, String(count)),
    s("text", {x: 22, y: 14, class: "start title"}, title), formulas(symbol, formula ?? "").map((line, place) => s("text", {x: 22, y: 34 + 17 * place, class: "start formula"}, set(line))));
}

/** The lines below a name: the formula, or the symbol alone. */
function formulas(symbol, formula) {
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

function wrapped(text, width) {
  const lines = [];
  for (const word of text.split(" ")) {
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

const plain = (text) => ({element: s("text", {x: 0, y: 16, class: "start"}, text), width: 80, height: 24});

function upright(values, x, most, width = 22) {
  const cell = BAR / values.length;
  return [values.map((value, place) => s("rect", {x, y: place * cell, width, height: cell + 0.3, fill: signed((value ?? 0) / most)})), s("rect", {x, y: 0, width, height: BAR, class: "outline"})];
}

function names_(tokens, column, y) {
  return tokens.map((token, place) => s("text", {x: (place + 0.5) * column, y, class: "axis"}, cut(shown(token), column - 4, 13), s("title", {}, shown(token))));
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
    shares ? s("rect", {x: place * column + 2, y: 0, width: column - 4, height: 24, rx: 3, fill: heat(value), class: "share-cell"}) : null,
    s("text", {x: (place + 0.5) * column, y: 16.5, class: `${place === most ? "most" : ""} ${shares && value > 0.55 ? "on-heat" : ""}`}, shares ? value.toFixed(2) : number(value)),
  ]);
  return {element: [element, names_(tokens, column, 40)], width: part.values.length * column, height: 44};
}

/** The states, each as strong as its weight, and the sum that they make. */
function weighted(states, weights, sum, names, column) {
  const most = strongest(states.values);
  const tokens = names[AXES[states.axes[0]]];
  const count = states.values.length;
  const x = count * column;
  const element = [
    states.values.map((vector, place) => upright(vector.map((value) => value * weights.values[place]), (place + 0.5) * column - 11, most)),
    tokens.map((_, place) => s("text", {x: (place + 0.5) * column, y: BAR + 16, class: "axis"}, number(weights.values[place]))),
    s("text", {x: x + 10, y: BAR / 2 + 6, class: "equals"}, "="), upright(sum.values, x + 26, most, 26), s("text", {x: x + 39, y: BAR + 16, class: "axis"}, set(sum.symbol)),
  ];
  return {element, width: x + 70, height: BAR + 20};
}

/** Vectors that lie: one for each layer. */
function strips(vectors) {
  const most = strongest(vectors);
  const element = vectors.map((vector, layer) => [
    vector.map((value, place) => s("rect", {x: place * CELL * 1.6, y: layer * 24 + 4, width: CELL * 1.6 + 0.3, height: 16, fill: signed((value ?? 0) / most)})),
    s("rect", {x: 0, y: layer * 24 + 4, width: vector.length * CELL * 1.6, height: 16, class: "outline"}),
    vectors.length > 1 ? s("text", {x: vector.length * CELL * 1.6 + 8, y: layer * 24 + 17, class: "small start"}, `layer ${layer + 1}`) : null,
  ]);
  return {element, width: vectors[0].length * CELL * 1.6 + 60, height: vectors.length * 24};
}

/** The scores of all steps; what is masked is grey. */
function scoreMatrix(part, names) {
  const cell = Math.max(10, Math.min(26, Math.floor(480 / part.values.length)));
  const most = strongest(part.values);
  const [rows, columns] = part.axes.map((axis) => names[AXES[axis]]);
  const left = Math.min(90, Math.max(...rows.map((one) => textWidth(shown(one), 11)))) + 8;
  const element = [
    part.values.map((row, t) => row.map((value, j) => s("rect", {x: left + j * cell, y: t * cell, width: cell - 1, height: cell - 1, ...(value === null ? {class: "masked"} : {fill: signed(value / most)})}, s("title", {}, `${shown(rows[t])} → ${shown(columns[j])}: ${number(value)}`)))),
    rows.map((name, t) => s("text", {x: left - 6, y: (t + 0.5) * cell + 4, class: t === names.step ? "end small most" : "end small"}, cut(shown(name), 86, 11))),
    s("rect", {x: left - 1, y: names.step * cell - 1, width: columns.length * cell + 1, height: cell + 1, class: "frame-row"}),
  ];
  return {element, width: left + columns.length * cell, height: rows.length * cell + 4};
}

function tokens({most_probable: best, token_id: chosen}) {
  const element = best.map((one, place) => {
    const y = place * 22;
    return [
      s("text", {x: 100, y: y + 14, class: one.token_id === chosen ? "end most" : "end"}, cut(shown(one.token), 96, 13)),
      s("rect", {x: 110, y: y + 3, width: 240, height: 13, class: "track", rx: 2}), s("rect", {x: 110, y: y + 3, width: Math.max(1, 240 * one.probability), height: 13, rx: 2, class: one.token_id === chosen ? "bar chosen" : "bar"}),
      s("text", {x: 358, y: y + 14, class: "start"}, probability(one.probability)),
      one.copied === undefined ? null : s("text", {x: 408, y: y + 14, class: "start small"}, `copied: ${probability(one.copied)}`),
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
        return [s("rect", {x: x + 6 + bar * 26, y: 64 - height, width: 20, height, class: name === "output" ? "bar added" : "bar"}), s("text", {x: x + 16 + bar * 26, y: 60 - height, class: "small"}, number(norms[name], 1))];
      }),
      s("text", {x: x + 42, y: 80, class: "small"}, `${layer} ${KINDS[kind]}`),
    ];
  });
  return {element: s("g", {transform: "translate(0 10)"}, element), width: layers.length * width, height: 100};
}
