// Two models on the same input: answers, beams, and attention on one scale.

import {differing} from "./answer.js";
import {get, messageOf} from "./api.js";
import {matrix} from "./attention.js";
import {Beam} from "./beam.js";
import {fill, h, number, shown, table} from "./dom.js";
import {emptyResult, follow, opened} from "./search.js";
import {facts, setParams, state} from "./store.js";

export class Compare {
  constructor() {
    this.other = h("select", {"aria-label": "The other model", onchange: () => setParams({with: this.other.value})});
    this.sides = [0, 1].map((side) => {
      const parts = {
        name: h("h3"), answer: h("p.compared", {dir: "auto"}), facts: h("p.answer-facts"), beam: new Beam({compact: true, source: () => this.results[side]}),
        attention: h("div.attention-drawing", {tabindex: 0, role: "group", "aria-label": "Attention"}),
      };
      return {...parts, element: h("section.side", parts.name, parts.answer, parts.facts, parts.beam.element, parts.attention)};
    });
    this.note = h("p.quiet");
    this.element = h("div.compare-view", h("div.controls", h("label", "beside", this.other)), this.note, h("div.sides", this.sides.map((side) => side.element)));
    this.results = [null, null];
    this.asked = null;
  }

  update() {
    const best = this.chooseOther();
    this.element.classList.toggle("without", !best);
    if (!best) return;
    const {result} = state;
    if (!result) [this.results[1], this.asked] = [null, null];
    this.results[0] = result;
    const wanted = result?.output && `${best.name} ${JSON.stringify([result.input, result.options])}`;
    if (result?.status === "done" && wanted !== this.asked) this.ask(best.name, wanted);
    this.draw();
  }

  /** The model to compare with: the one that is named, or one that reads the same sources. */
  chooseOther() {
    if (state.runs && !this.runs) this.loadRuns();
    const kinds = (model) => JSON.stringify(model?.sources.map(({name, kind}) => (model.sources.length > 1 ? [name, kind] : kind)));
    const fits = (model) => kinds(model) === kinds(facts());
    const loaded = state.models.filter((model) => model.name !== state.model && fits(model));
    const names = [...new Set([...loaded.map(({name}) => name), ...(this.runs ?? [])])].filter((name) => name !== state.model && state.models.every((model) => model.name !== name || fits(model)));
    const none = state.models.length > 1 ? "No other model of this server reads such an input." : "This server has one model. Start it with several, or with a folder of runs: antiphon serve RUN RUN";
    fill(this.note, this.problem ?? (names.length ? "" : none));
    this.other.parentElement.hidden = !names.length;
    fill(this.other, names.map((name) => h("option", {value: name}, name)));
    const named = state.params.with;
    const same = (model) => JSON.stringify(model.sources) === JSON.stringify(facts()?.sources);
    const best = loaded.find(({name}) => name === named) ?? (named ? null : loaded.find(same) ?? loaded[0]);
    if (named && !best && names.includes(named)) this.open(named);
    this.other.value = best?.name ?? named ?? "";
    return best;
  }

  /** Load a run, once: the view is updated often while it is loaded. */
  async open(name) {
    if (this.opening === name) return;
    Object.assign(this, {opening: name, problem: null});
    try {
      await opened(name);
    } catch (error) {
      if (this.opening === name) fill(this.note, this.problem = messageOf(error));
    }
  }

  async loadRuns() {
    this.runs = [];
    try {
      const {runs} = await get("/v1/runs");
      this.runs = runs.filter(({usable}) => usable).map(({name}) => name);
    } catch (error) {
      this.problem = messageOf(error);
    }
    if (this.element.isConnected) this.update();
  }

  ask(model, wanted) {
    this.asked = wanted;
    this.controller?.abort();
    this.controller = new AbortController();
    const other = emptyResult(state.result.input, model, []);
    this.results[1] = other;
    follow(other, () => other === this.results[1] && this.draw(), this.controller.signal);
  }

  draw() {
    const outputs = this.results.map((result) => result?.output);
    const scale = Math.max(...outputs.flatMap((output) => output?.attention?.weights?.flat() ?? [0]), 0.01);
    this.sides.forEach((side, place) => {
      const [result, output, other] = [this.results[place], outputs[place], outputs[1 - place]];
      fill(side.name, result?.model ?? "");
      fill(side.answer, output ? differing(output.text, other?.text ?? output.text) : result?.error?.message ?? result?.text ?? "");
      fill(side.facts, output && [`score ${number(output.score)}`, `${output.tokens.length} steps`, `${Math.max(1, Math.round(result.ms))} ms`].map((fact) => h("span.figure", fact)));
      side.beam.update();
      const weights = output?.attention?.weights;
      fill(side.attention, weights && matrix({weights, rows: output.tokens.map(shown), columns: output.attention.source_tokens.map(shown), scale, room: 400}, () => null));
    });
  }

  table() {
    return table("Two answers", ["model", "answer", "score"], this.results.filter((result) => result?.output).map(({model, output}) => [model, output.text, number(output.score)]));
  }

  picture() {
    return this.sides[1].attention.querySelector("svg") ?? this.sides[1].beam.picture();
  }

  data() {
    return this.results.every((result) => result?.output) ? this.results.map(({model, input, output, trees}) => ({model, input, output, trees})) : null;
  }
}
