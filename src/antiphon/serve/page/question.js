// What is asked, and the answer in words that can be touched: shared by the views.

import {messageOf, setKey} from "./api.js";
import {copy, cut, fill, h, heat, isEnd, link, number, probability, say, shown} from "./dom.js";
import {explain, input, kindOfSearch, search, weightsOf} from "./search.js";
import {change, enter, facts, spelling, state, steer, undo} from "./store.js";

const PAUSE = 400; // milliseconds after the last key
const ALTERNATIVES = 10;
export const FILES = {image: ["a picture", "image/*"], audio: ["a sound", "audio/*,.wav,.flac,.ogg"], features: ["an array (.npy)", ".npy"], frames: ["a video as an array (.npy)", ".npy"]};

/** The input, the answer, and what is to be said of it. */
export class Question {
  constructor(element) {
    this.turns = h("ol.turns", {"aria-label": "Conversation"});
    this.fields = h("div.fields");
    this.answer = h("div.answer", {dir: "auto", role: "group", "aria-label": "Answer"});
    this.facts = h("p.answer-facts");
    this.problem = h("div.problem", {role: "alert"});
    this.menu = new Menu();
    fill(element, this.turns, this.fields, h("div.answer-frame", this.answer, this.menu.element), this.facts, this.problem);
    this.answer.addEventListener("keydown", (event) => this.move(event));
    for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => this.dropBeside(event));
  }

  update(changed) {
    const has = (...names) => names.some((name) => changed.has(name));
    if (has("model", "models", "files")) this.showFields();
    if (has("inputs", "view")) this.showTexts();
    if (has("turns", "model")) this.showTurns();
    if (has("result", "prefix", "theme")) this.showAnswer(has("theme"));
    if (has("position")) this.select();
    if (has("view")) this.menu.close();
  }

  showFields() {
    if (!state.models.length) return fill(this.fields, h("p.quiet", "No model is loaded yet: “ask it” in Runs loads one."));
    const sources = facts()?.sources?.length ? facts().sources : [{name: "text", kind: "text"}];
    fill(this.fields, sources.map(({name, kind}) => (kind === "text" ? this.textField(name, sources.length > 1) : this.fileField(name, kind))), this.examples());
    this.showTexts();
  }

  textField(name, named) {
    const area = h("textarea", {"data-name": name, rows: 1, spellcheck: "false", dir: "auto", "aria-label": named ? name : "Input", placeholder: placeholder(), maxlength: state.limits.max_characters, oninput: () => this.type(name, area), onkeydown: (event) => this.submit(event, name)});
    return h("label.text-field", named && h("span", name), area);
  }

  examples() {
    const {examples = [], sources} = facts();
    if (examples.length < 2 || sources.length > 1) return null;
    const ask = (text) => enter({inputs: {[sources[0]?.name ?? "text"]: text}});
    return h("p.examples", h("span.quiet", "try "), examples.map((text) => link(cut(text, 260, 13), () => ask(text))));
  }

  fileField(name, kind) {
    const [what, accept] = FILES[kind];
    const chosen = state.files[name];
    const picker = h("input.unseen", {type: "file", accept, "aria-label": `${name}: choose ${what}`, onchange: () => this.take(name, kind, picker.files[0])});
    return h("label.drop", {ondragover: (event) => hover(event, true), ondragleave: (event) => hover(event, false), ondrop: (event) => {
      hover(event, false);
      this.take(name, kind, event.dataTransfer.files[0]);
    }}, picker, chosen && preview(chosen), h("span", chosen && h("strong", chosen.title), h("span.quiet", chosen ? " · drop or choose another" : `Drop ${what} here, or click to choose one`)));
  }

  /** A file that is dropped beside the fields goes to the first source of its kind; the browser would leave the page for it. */
  dropBeside(event) {
    if (event.defaultPrevented || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (!file) return;
    const fitting = facts()?.sources.find(({kind}) => (kind === "image" || kind === "audio" ? file.type.startsWith(`${kind}/`) : kind !== "text" && file.name.endsWith(".npy")));
    if (fitting) this.take(fitting.name, fitting.kind, file);
    else fill(this.problem, `${file.name}: this model reads no such file.`);
  }

  async take(name, kind, file) {
    if (!file) return;
    const taken = await readFile(kind, file);
    enter({files: {...state.files, [name]: taken}});
  }

  showTexts() {
    for (const area of this.fields.querySelectorAll("textarea")) {
      const text = state.inputs[area.dataset.name] ?? "";
      if (area.value !== text) area.value = text;
      area.style.height = "auto";
      if (area.scrollHeight) area.style.height = `${Math.min(area.scrollHeight, 260)}px`;
    }
  }

  type(name, area) {
    enter({inputs: {...state.inputs, [name]: area.value}}, {asks: false});
    clearTimeout(this.timer);
    this.timer = setTimeout(search, PAUSE);
  }

  async submit(event, name) {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    clearTimeout(this.timer);
    const text = state.inputs[name];
    await search();
    const still = state.inputs[name] === text; // nothing else was typed while greedy's answer came
    if (facts()?.turns && state.result?.output && still && text.trim()) {
      change({turns: [...state.turns, text, state.result.output.text], inputs: {[name]: ""}}); // the answer stays to be looked at
    }
  }

  showTurns() {
    const {turns} = state;
    const back = () => change({turns: turns.slice(0, -2), inputs: {[Object.keys(state.inputs)[0]]: turns.at(-2)}});
    fill(this.turns, turns.map((turn, place) => h("li", {class: place % 2 ? "theirs" : "yours", dir: "auto"}, turn)),
      turns.length > 0 && h("li.turn-tools", link("take back", back), " ", link("new conversation", () => change({turns: []}))));
  }

  /** Draw the answer, unless it stands there: a menu stays open and the focus where it is when only greedy's answer comes. */
  showAnswer(again) {
    const {result} = state;
    if (state.prefix !== this.prefix) this.menu.close();
    this.prefix = state.prefix;
    if (!again && result?.output && result.output === this.drawn?.output && result.status === this.drawn.status) return;
    this.drawn = {output: result?.output, status: result?.status};
    this.held ||= this.answer.contains(document.activeElement);
    this.menu.close();
    this.showProblem(result?.error);
    if (!result?.output) {
      fill(this.answer, result ? h("span.growing", result.text || (result.error ? "" : "…")) : h("span.waiting", input() === null && facts() ? "The answer stands here." : ""));
      return fill(this.facts);
    }
    const {tokens, text} = result.output;
    fill(this.answer, tokens.length ? tokens.map((token, place) => this.token(token, place, result)) : h("span.quiet", "(an empty answer)"));
    this.select();
    if (this.held && document.activeElement === document.body) this.answer.querySelector('[tabindex="0"]')?.focus();
    this.held &&= result.status !== "done";
    this.showFacts(result);
    if (result !== this.told && result.status === "done") say(`Answer: ${text}`);
    this.told = result;
  }

  token(token, place, result) {
    const p = Math.exp(result.output.log_probs[place]);
    const text = isEnd(token) ? "end" : spaced(token);
    const locked = place < result.prefix.length;
    const names = ["token", isEnd(token) && "end", locked && "locked", p < 0.5 && "unsure", glued(token, place) && "glued"].filter(Boolean).join(" ");
    return h("button", {class: names, tabindex: -1, "data-place": place, "aria-label": `${shown(token)}, probability ${probability(p)}${locked ? ", locked" : ""}`, title: `p ${probability(p)}`,
      onclick: () => this.touch(place), onpointerenter: () => this.hover(place)},
    h("span", text), h("span.share", {style: {"--share": p.toFixed(3), "--tint": heat(0.25 + 0.75 * p)}}));
  }

  hover(place) {
    if (state.view === "attention" || state.view === "beam") change({position: place});
  }

  touch(place) {
    change({position: place});
    if (state.view === "answer") this.menu.open(place, this.answer.querySelector(`[data-place="${place}"]`));
  }

  select() {
    for (const button of this.answer.querySelectorAll("[data-place]")) {
      const here = Number(button.dataset.place) === state.position;
      button.classList.toggle("selected", here && state.view !== "answer");
      button.tabIndex = here || (state.position >= (state.result?.output?.tokens.length ?? 0) && button.dataset.place === "0") ? 0 : -1;
    }
  }

  move(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    const last = (state.result?.output?.tokens.length ?? 0) - 1;
    if (!step || this.menu.isOpen || last < 0) return;
    event.preventDefault();
    change({position: Math.min(last, Math.max(0, state.position + step))});
    this.answer.querySelector(`[data-place="${state.position}"]`)?.focus();
  }

  showFacts(result) {
    const {output} = result;
    const length = output.tokens.length;
    const kind = kindOfSearch(result);
    const mean = output.log_probs.reduce((sum, one) => sum + one, 0) / Math.max(1, length);
    const lock = result.prefix.length ? h("span.lock", `${result.prefix.length} locked `, h("button.plain", {onclick: undo}, "undo"), " ", h("button.plain", {onclick: () => enter({})}, "unlock all")) : null;
    fill(this.facts, lock, h("span.figure", `${number(mean)} a token`), h("span", kind), h("span.figure", `${length} steps`), h("span.figure", `${Math.max(1, Math.round(result.ms))} ms`),
      weightsOf(result) && h("span.figure.weights", weightsOf(result)),
      h("button.plain", {onclick: () => copy(output.text)}, "copy"));
  }

  showProblem(error) {
    if (error?.status !== 401) return fill(this.problem, error?.message);
    const field = h("input", {type: "password", "aria-label": "Key of this server", autocomplete: "off"});
    fill(this.problem, h("form", {onsubmit: (event) => {
      event.preventDefault();
      setKey(field.value);
      location.reload();
    }}, error.message, " ", field, h("button", {type: "submit"}, "use this key")));
  }
}

/** The other tokens that could stand in a place; choosing one locks the answer up to it. */
class Menu {
  constructor() {
    this.list = h("ol.menu-list", {role: "listbox", "aria-label": "What else could stand here", tabindex: -1});
    this.element = h("div.menu", {hidden: true}, h("p.menu-head", "What else could stand here"), this.list);
    this.rows = [];
    document.addEventListener("pointerdown", (event) => this.element.contains(event.target) || event.target.closest?.(".token") || this.close());
    document.addEventListener("keydown", (event) => this.isOpen && this.key(event), {capture: true}); // also while its rows are loaded
  }

  get isOpen() {
    return !this.element.hidden;
  }

  async open(place, anchor) {
    const {result} = state;
    Object.assign(this, {place, anchor, rows: []});
    this.element.hidden = false;
    const wanted = () => this.isOpen && this.place === place && state.result === result;
    fill(this.list, h("li.quiet", "…"));
    this.put();
    const answer = result.output.token_ids.filter((_, index) => !isEnd(result.output.tokens[index]));
    try {
      const {alternatives} = await explain("/v1/alternatives", {position: place, count: Math.min(ALTERNATIVES, facts().target_tokens), answer});
      if (wanted()) this.show(alternatives, result);
    } catch (error) {
      if (wanted()) fill(this.list, h("li.quiet", messageOf(error)));
    }
  }

  show(alternatives, result) {
    const now = result.output.token_ids[this.place];
    this.rows = alternatives;
    fill(this.list, alternatives.map((one, row) => h("li", {role: "option", tabindex: -1, "aria-selected": String(one.token_id === now), class: one.token_id === now ? "now" : "", onclick: () => this.choose(row)},
      h("kbd", String((row + 1) % 10)), h("span.menu-token", shown(one.token)),
      h("span.bar-cell", h("span.score-bar", {style: {width: `${Math.max(1, 100 * one.probability)}%`}})),
      h("span.figure", probability(one.probability)), h("span.menu-text", one.text))));
    this.put();
    (this.list.querySelector(".now") ?? this.list.firstElementChild)?.focus();
  }

  put() {
    const frame = this.element.parentElement.getBoundingClientRect();
    const box = this.anchor.getBoundingClientRect();
    this.element.style.left = `${Math.max(0, Math.min(box.left - frame.left - 12, frame.width - this.element.offsetWidth))}px`;
    this.element.style.top = `${box.bottom - frame.top + 6}px`;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key !== "Escape" && event.target.closest("input, textarea, select"))) return;
    if (event.key === "Tab") return this.close();
    const items = [...this.list.children];
    const here = items.indexOf(document.activeElement);
    const next = {ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: items.length - 1}[event.key];
    if (next !== undefined) items[Math.min(items.length - 1, Math.max(0, next))]?.focus();
    else if (here >= 0 && (event.key === "Enter" || event.key === " ")) this.choose(here);
    else if (event.key === "Escape") this.close(true);
    else if (/^\d$/.test(event.key)) this.choose((Number(event.key) + 9) % 10);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  choose(row) {
    const chosen = this.rows[row];
    if (!chosen) return;
    const {place} = this;
    this.close(true);
    const before = state.result.output.token_ids.slice(0, place);
    change({position: place});
    steer(isEnd(chosen.token) ? before : [...before, chosen.token_id]);
  }

  close(back = false) {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.rows = [];
    if (back) this.anchor?.focus();
  }
}

/** What stands in the empty field. */
function placeholder() {
  const model = facts();
  if (model?.turns) return "Your turn; Enter keeps the answer in the conversation";
  if (model?.kind === "language-model") return "The beginning of a text";
  return model?.examples?.length ? `For example: ${model.examples[0]}` : "Type a source; the answer follows while you type";
}

/** Characters stand side by side; pieces of words, too, unless they begin with a space. */
function glued(token, place) {
  if (place === 0 || isEnd(token)) return false;
  const kind = spelling(state.model);
  return kind === "side by side" || (kind === "pieces" && !token.startsWith("▁"));
}

function spaced(token) {
  const kind = spelling(state.model);
  if (kind === "words") return token;
  return (kind === "pieces" ? token.replace(/^▁/, "") : token).replaceAll("▁", "␣") || "␣";
}

function hover(event, on) {
  event.preventDefault();
  event.currentTarget.classList.toggle("over", on);
}

/** A file as the state keeps it. */
export function readFile(kind, file) {
  const reader = new FileReader();
  return new Promise((resolve) => {
    reader.onload = () => resolve({kind, title: file.name, url: URL.createObjectURL(file), base64: reader.result.slice(reader.result.indexOf(",") + 1)});
    reader.readAsDataURL(file);
  });
}

function preview({kind, url, title}) {
  if (kind === "image") return h("img.preview", {src: url, alt: title});
  return kind === "audio" ? h("audio", {src: url, controls: true}) : null;
}
