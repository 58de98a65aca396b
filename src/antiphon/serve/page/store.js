// The state that all views share, and its address after `#`, which never reaches a server's log.

export const state = {
  models: [], // the facts of /info
  limits: {},
  runs: false, // the server has a folder of runs
  model: "",
  inputs: {}, // text of each source by its name
  turns: [], // of a conversation so far: a line, its answer, and so on
  files: {}, // {name: {url, base64, kind, title}} of each source that is a file
  options: {}, // search options that differ from the model's own
  prefix: [], // ids of the tokens that are locked
  view: "answer",
  position: 0, // the token of the answer that is selected in all views
  params: {}, // what a view keeps in the address: {layer: "2"}
  result: null, // of the last search, see search.js
  ghost: null, // the result before the last steering
};

const listeners = new Set();
let ask = () => null; // searches for the answer
const undone = []; // {prefix, ghost} before each steering

/** Call `listener(changed)` after every change, with the set of changed names. */
export function subscribe(listener) {
  listeners.add(listener);
}

/** Call `search` after changes that ask for another answer. */
export function onAsk(search) {
  ask = search;
}

/** Change the state and tell everybody; `asks` if there is another answer now. */
export function change(patch, {asks = false} = {}) {
  Object.assign(state, patch);
  const changed = new Set(Object.keys(patch));
  for (const listener of listeners) listener(changed);
  if (asks) ask();
}

/** The facts of a model: the chosen one, if no name is given. */
export const facts = (name = state.model) => state.models.find((model) => model.name === name) ?? state.models[0];

/** How the target is cut into tokens: "side by side", "pieces" that begin with a mark for a space, or "words". */
export function spelling(model) {
  const tokens = facts(model)?.target?.tokens;
  return {characters: "side by side", letters: "side by side", bpe: "pieces", unigram: "pieces"}[tokens] ?? "words";
}

/** The text of tokens, as far as it can be told from how they are shown. */
export function joined(tokens, model) {
  const rest = tokens.filter((token) => token !== "</s>");
  if (spelling(model) === "words") return rest.join(" ");
  return rest.join("").replaceAll("▁", " ").trimStart();
}

/** The value of a search option: the chosen one, or the model's own. */
export const option = (name, model) => state.options[name] ?? own(name, model);
const own = (name, model) => facts(model)?.decoding?.[name] ?? DEFAULTS[name];
const DEFAULTS = {beam: 4, length_penalty: 1, temperature: 1, sample: false, seed: 0, patience: null};

/** Set search options; those equal to the model's own are left out. */
export function setOptions(patch) {
  const options = {...state.options, ...patch};
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === own(name)) delete options[name];
  }
  change({options}, {asks: true});
}

/** Lock the answer up to the last of these tokens; the search before stays as a ghost. */
export function steer(prefix) {
  undone.push({prefix: state.prefix, ghost: state.ghost});
  change({ghost: state.result, prefix}, {asks: true});
}

/** Take back the last steering, or what an address has locked; false if there was none. */
export function undo() {
  const before = undone.pop() ?? (state.prefix.length ? {prefix: [], ghost: null} : null);
  if (before) change(before, {asks: true});
  return Boolean(before);
}

/** Another input: what was locked and chosen is forgotten. */
export function enter(patch, {asks = true} = {}) {
  undone.length = 0;
  change({prefix: [], ghost: null, position: 0, ...patch}, {asks});
}

/** The address of what is shown; of files it has nothing. */
export function address() {
  const parts = new URLSearchParams();
  if (state.models.length > 1) parts.set("model", state.model);
  const names = Object.keys(state.inputs);
  for (const name of names) if (state.inputs[name]) parts.set(names.length > 1 ? `in.${name}` : "in", state.inputs[name]);
  for (const [name, value] of Object.entries(state.options)) parts.set(name, value);
  if (state.prefix.length) parts.set("prefix", state.prefix.join("."));
  if (state.position) parts.set("at", state.position);
  for (const [name, value] of Object.entries(state.params)) if (value !== null && value !== "") parts.set(`${state.view}.${name}`, value);
  const query = String(parts);
  return `#${state.view}${query ? `?${query}` : ""}`;
}

/** Change what the view keeps in the address. */
export const setParams = (patch) => change({params: {...state.params, ...patch}});

/** The changes that an address asks for. */
export function fromAddress(hash, models) {
  const [view, query = ""] = hash.replace(/^#/, "").split("?", 2);
  const parts = new URLSearchParams(query);
  const model = models.find((one) => one.name === parts.get("model")) ?? models[0];
  const names = (model?.sources ?? []).map((source) => source.name);
  const keys = names.length ? names : ["text"];
  const inputs = Object.fromEntries(keys.map((name) => [name, parts.get(`in.${name}`) ?? (keys.length === 1 ? parts.get("in") : null) ?? ""]));
  const options = {};
  for (const name of ["beam", "length_penalty", "temperature", "seed", "patience", "top_k", "top_p", "joint", "max_length"]) {
    const value = Number.parseFloat(parts.get(name));
    if (Number.isFinite(value)) options[name] = value;
  }
  if (parts.get("sample") === "true") options.sample = true;
  const params = {};
  for (const [key, value] of parts) if (key.startsWith(`${view}.`)) params[key.slice(view.length + 1)] = value;
  const prefix = (parts.get("prefix")?.match(/\d+/g) ?? []).map(Number);
  return {view: view || "answer", model: model?.name ?? "", inputs, options, prefix, params, position: Math.max(0, Number.parseInt(parts.get("at"), 10) || 0)};
}

/** Begin with an example of the model where an address gives no input. */
export function exemplify({model, inputs}) {
  const [name] = Object.keys(inputs);
  inputs[name] ||= facts(model)?.examples?.[0] ?? "";
}
