// One step of the decoder, worked out: every quantity of the textbook's figure with the numbers of this model.

import {ApiError, post} from "./api.js";
import {figure, fill, h, number, probability, shown, table} from "./dom.js";
import {named} from "./search.js";
import {change, facts, state} from "./store.js";
import {worksheet} from "./worksheet.js";

const SHOWN = 48; // dimensions of a vector

export class Step {
  constructor() {
    this.controls = h("div", {class: "controls"});
    this.sheet = h("div", {class: "sheet"});
    this.notes = h("ul", {class: "notes"});
    this.config = h("p", {class: "config-line"});
    this.figure = figure(this.sheet, () => this.table());
    this.element = h("div", {class: "step-view"}, this.controls, this.figure, this.notes, this.config);
    this.asked = "";
  }

  update(changed) {
    const {result} = state;
    if (!result?.output) return result?.status === "searching" ? undefined : this.clear("Type something above: each step of its answer is worked out here.");
    if (facts().unexplained) return this.clear(facts().unexplained);
    const position = Math.min(state.position, result.output.tokens.length - 1);
    const {layer, head} = state.params;
    const body = {inputs: result.input, answer: result.output.token_ids, position, dimensions: SHOWN, ...(layer ? {layer: Number(layer)} : {}), ...(head ? {head: Number(head)} : {}), ...named(state.model)};
    const asked = JSON.stringify(body);
    if (asked === this.asked) return changed.has("theme") && this.step ? this.draw() : undefined;
    this.asked = asked;
    return this.load(body, asked);
  }

  clear(sentence) {
    this.asked = "";
    this.step = null;
    fill(this.controls, h("p", {class: "quiet"}, sentence));
    fill(this.sheet);
    fill(this.notes);
    fill(this.config);
  }

  async load(body, asked) {
    try {
      const step = await post("/v1/explain/step", body);
      if (asked !== this.asked) return;
      this.step = step;
      this.count = body.answer.length; // without the end that the API adds to an answer that was cut off
      this.draw();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (asked === this.asked) this.clear(error.message);
    }
  }

  draw() {
    const {step} = this;
    this.showControls();
    fill(this.sheet, worksheet(step));
    fill(this.notes, step.notes.map((note) => h("li", {}, note)));
    fill(this.config, "This drawing comes from ", h("code", {}, step.config));
  }

  showControls() {
    const {position, token, layer, head, layers} = this.step;
    const go = (place) => change({position: place});
    const choose = (name, most, value) => h("label", {}, name, h("select", {"aria-label": name, onchange: (event) => change({params: {...state.params, [name]: event.currentTarget.value}})},
      Array.from({length: most}, (_, index) => h("option", {value: index + 1, selected: index + 1 === value}, String(index + 1)))));
    const depth = Math.max(0, ...layers.map((one) => one.layer));
    const heads = layers.find((one) => one.weights)?.weights.length ?? 0;
    fill(this.controls,
      h("div", {class: "group"}, h("button", {type: "button", "aria-label": "The step before", disabled: position === 0, onclick: () => go(position - 1)}, "‹"),
        h("strong", {class: "step-name"}, `writing token ${position + 1} of ${this.count}: ${shown(token)}`),
        h("button", {type: "button", "aria-label": "The next step", disabled: position + 1 === this.count, onclick: () => go(position + 1)}, "›")),
      layer === null ? null : h("div", {class: "group"}, choose("layer", depth, layer), choose("head", heads, head)));
  }

  table() {
    const {step} = this;
    if (!step) return h("p", {}, "Nothing is drawn.");
    const rows = step.parts.map((part) => [part.name, part.symbol, part.formula, part.axes.length > 1 ? `${part.values.length} × ${part.values[0].length}` : "", flat(part.values)]);
    const best = step.most_probable.map((one) => [shown(one.token), "", "", "", probability(one.probability)]);
    return table("The quantities of the step, in the order of the computation", ["name", "symbol", "formula", "size", "values"], [...rows, ...best]);
  }

  picture() {
    return this.sheet.querySelector("svg");
  }

  data() {
    return this.step;
  }
}

function flat(values) {
  const numbers = [values].flat(Infinity);
  const text = numbers.slice(0, 12).map((value) => number(value)).join(", ");
  return numbers.length > 12 ? `${text}, …` : text;
}
