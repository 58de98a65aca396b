// The answer: what is wrong with it, the n best, and its beam.

import {Beam} from "./beam.js";
import {fill, h, heat, isEnd, number, probability, s, shown, table, textWidth} from "./dom.js";
import {facts, state, steer} from "./store.js";

/** The first view. */
export class Answer {
  constructor() {
    this.flags = h("ul", {class: "flags", "aria-label": "Flags"});
    this.best = h("div", {class: "best"});
    this.beam = new Beam({compact: true});
    this.beamPart = h("section", {class: "part"}, h("h3", {}, "How it was found"), this.beam.element);
    this.element = h("div", {class: "answer-view"}, this.flags, this.best, this.beamPart);
  }

  update(changed) {
    const {result} = state;
    const output = result?.output;
    if (output) {
      fill(this.flags, output.flags.map((flag) => h("li", {}, flag)));
      fill(this.best, this.nBest(output));
    } else if (!result || result.error) {
      fill(this.flags);
      fill(this.best);
    }
    this.beamPart.toggleAttribute("hidden", Boolean(facts()?.unwatchable) || !result || Boolean(result.error));
    this.beam.update(changed);
  }

  nBest(output) {
    const answers = output.alternatives ?? [];
    if (answers.length < 2) return null;
    const others = answers.slice(1, 10);
    return [h("h3", {}, "Other answers"), h("ol", {class: "ranking", start: 2}, others.map((one) => h("li", {},
      one.token_ids ? h("button", {type: "button", class: "plain", title: "Lock this answer", onclick: () => steer(one.token_ids.filter((_, place) => !isEnd(one.tokens[place])))}, differing(one.text, output.text)) : h("span", {}, differing(one.text, output.text)),
      h("span", {class: "figure"}, number(one.score)))))];
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
        s("text", {x: width / 2, y: 34, class: "answer-token"}, shown(token)),
        s("rect", {x: 2, y: 44, width: width - 4, height: 5, class: "track"}),
        s("rect", {x: 2, y: 44, width: (width - 4) * p, height: 5, fill: heat(0.25 + 0.75 * p)}),
        s("text", {x: width / 2, y: 66, class: "small"}, probability(p)));
      x += width + 8;
      return group;
    });
    return s("svg", {viewBox: `0 0 ${x + 4} 80`, width: x + 4, height: 80}, tokens);
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
export function differing(text, other) {
  const [words, others] = [text.split(" "), other.split(" ")];
  const common = longestCommon(words, others);
  const runs = [];
  words.forEach((word, place) => {
    const same = common.has(place);
    if (runs.at(-1)?.same === same) runs.at(-1).words.push(word);
    else runs.push({same, words: [word]});
  });
  return runs.flatMap(({same, words: run}, place) => [place ? " " : "", same ? run.join(" ") : h("mark", {}, run.join(" "))]);
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
