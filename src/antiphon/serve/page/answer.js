// The answer: what is wrong with it, the n best, and its beam.

import {Beam} from "./beam.js";
import {fill, h, heat, isEnd, link, number, probability, rect, s, shown, svg, table, text, textWidth} from "./dom.js";
import {facts, state, steer} from "./store.js";

/** The first view. */
export class Answer {
  constructor() {
    this.flags = h("ul.flags", {"aria-label": "Flags"});
    this.best = h("div.best");
    this.beam = new Beam({compact: true});
    this.beamPart = h("section.part", h("h3", "How it was found"), this.beam.element);
    this.element = h("div.answer-view", this.flags, this.best, this.beamPart);
  }

  update() {
    const {result} = state;
    const output = result?.output;
    if (output || !result || result.error) { // until another answer comes, the one before stays
      fill(this.flags, output?.flags.map((flag) => h("li", flag)));
      fill(this.best, output && this.nBest(output));
    }
    this.beamPart.hidden = Boolean(!result || result.error || facts().unwatchable);
    this.beam.update();
  }

  nBest(output) {
    const others = output.alternatives?.slice(1, 10) ?? [];
    const lock = ({tokens, token_ids: ids}) => steer(ids.filter((_, place) => !isEnd(tokens[place])));
    return others.length > 0 && [h("h3", "Other answers"), h("ol.ranking", {start: 2}, others.map((one) => {
      const button = link(differing(one.text, output.text), () => lock(one));
      button.title = "Lock this answer";
      return h("li", button, h("span.figure", number(one.score)));
    }))];
  }

  /** The tokens of the answer over their probabilities, as a picture of its own. */
  picture() {
    const output = state.result?.output;
    if (!output) return null;
    let x = 12;
    const tokens = output.tokens.map((token, place) => {
      const p = Math.exp(output.log_probs[place]);
      const width = Math.max(34, textWidth(shown(token), 20, 400) + 8);
      const group = s("g", {transform: `translate(${x} 0)`},
        text("answer-token", width / 2, 34, shown(token)), rect(2, 44, width - 4, 5, {class: "track"}),
        rect(2, 44, (width - 4) * p, 5, {fill: heat(0.25 + 0.75 * p)}), text("small", width / 2, 66, probability(p)));
      x += width + 8;
      return group;
    });
    return svg("", x + 4, 80, "The answer", tokens);
  }

  table() {
    const output = state.result?.output;
    return output && table("The answer, token by token", ["token", "probability", "log p"], output.tokens.map((token, place) => [shown(token), probability(Math.exp(output.log_probs[place])), number(output.log_probs[place])]));
  }

  data() {
    return this.beam.data();
  }
}

/** The words of a text; those that another one does not have in this order stand out. */
export function differing(answer, other) {
  const [words, others] = [answer.split(" "), other.split(" ")];
  const common = longestCommon(words, others);
  const runs = [];
  words.forEach((word, place) => {
    const same = common.has(place);
    if (runs.at(-1)?.same === same) runs.at(-1).words.push(word);
    else runs.push({same, words: [word]});
  });
  return runs.flatMap(({same, words: run}, place) => [place ? " " : "", same ? run.join(" ") : h("mark", run.join(" "))]);
}

/** The places of the words that stand in both lists in the same order. */
function longestCommon(words, others) {
  if (words.length * others.length > 250_000) return new Set(words.keys());
  const lengths = words.map(() => new Uint16Array(others.length + 1));
  lengths.push(new Uint16Array(others.length + 1));
  for (let i = words.length - 1; i >= 0; i -= 1) {
    for (let j = others.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = words[i] === others[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const found = new Set();
  for (let i = 0, j = 0; i < words.length && j < others.length;) {
    if (words[i] === others[j]) {
      found.add(i);
      [i, j] = [i + 1, j + 1];
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return found;
}
