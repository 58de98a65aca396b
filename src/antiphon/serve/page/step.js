// One step of the decoder, worked out: every quantity of the textbook's figure with the numbers of this model.

import {messageOf, post} from "./api.js";
import {figure, fill, h, number, probability, select, shown, table, theme} from "./dom.js";
import {named} from "./search.js";
import {change, facts, setParams, state} from "./store.js";
import {worksheet} from "./worksheet.js";

const SHOWN = 48; // dimensions of a vector

export class Step {
  constructor() {
    this.controls = h("div.controls");
    this.sheet = h("div.sheet");
    this.notes = h("ul.notes");
    this.config = h("p.config-line");
    this.element = h("div.step-view", this.controls, figure(this.sheet, () => this.table()), this.notes, this.config);
    this.asked = "";
  }

  update() {
    const {result} = state;
    if (!result?.output) return result?.status === "searching" ? null : this.clear(result ? "" : "Type something above: each step of its answer is worked out here.");
    if (facts().unexplained) return this.clear(facts().unexplained);
    const {layer, head} = state.params;
    const body = {
      inputs: result.input, answer: result.output.token_ids, position: Math.min(state.position, result.output.tokens.length - 1), dimensions: SHOWN,
      ...(layer ? {layer: Number(layer)} : {}), ...(head ? {head: Number(head)} : {}), ...named(state.model),
    };
    const asked = JSON.stringify(body);
    if (asked !== this.asked) this.load(body, asked);
    else if (this.step && this.theme !== theme()) this.draw(); // it may have been changed in another view
  }

  clear(sentence) {
    Object.assign(this, {asked: "", step: null, request: null});
    fill(this.controls, h("p.quiet", sentence));
    for (const part of [this.sheet, this.notes, this.config]) fill(part);
  }

  async load(body, asked) {
    this.asked = asked;
    this.request = {path: "/v1/explain/step", body};
    try {
      const step = await post(this.request.path, body);
      if (asked !== this.asked) return;
      this.step = step;
      this.count = body.answer.length; // without the end that the API adds to an answer that was cut off
      this.draw();
    } catch (error) {
      if (asked === this.asked) this.clear(messageOf(error));
    }
  }

  draw() {
    const {step} = this;
    this.theme = theme();
    this.showControls();
    fill(this.sheet, worksheet(step));
    fill(this.notes, step.notes.map((note) => h("li", note)));
    fill(this.config, "This drawing comes from ", h("code", step.config));
  }

  showControls() {
    const {position, token, layer, head, layers} = this.step;
    const go = (sign, name, place, end) => h("button", {"aria-label": name, disabled: position === end, onclick: () => change({position: place})}, sign);
    const choose = (name, most, value) => {
      const field = select({"aria-label": name, onchange: () => setParams({[name]: field.value})}, Array.from({length: most}, (_, index) => [index + 1]));
      field.value = value;
      return h("label", name, field);
    };
    const depth = Math.max(0, ...layers.map((one) => one.layer));
    const heads = layers.find((one) => one.weights)?.weights.length ?? 0;
    fill(this.controls,
      h("div.group", go("‹", "The step before", position - 1, 0), h("strong.step-name", `writing token ${position + 1} of ${this.count}: ${shown(token)}`), go("›", "The next step", position + 1, this.count - 1)),
      layer !== null && h("div.group", choose("layer", depth, layer), choose("head", heads, head)));
  }

  table() {
    const {step} = this;
    if (!step) return null;
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
