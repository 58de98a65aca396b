// One search: the request, its events, and the tree that grows from them.

import {ApiError, noAnswer, post, stream} from "./api.js";
import {change, facts, option, state} from "./store.js";

let running = null; // the AbortController of the search that goes on

/** What the API takes as input: a text, the content of a file, or an object of several sources; null if it is empty. */
export function input() {
  const sources = facts()?.sources ?? [];
  if (sources.length < 2) {
    const [{name, kind} = {name: "text", kind: "text"}] = sources;
    return kind === "text" ? inConversation(state.inputs[name]) : state.files[name]?.base64 ?? null;
  }
  const found = Object.fromEntries(sources.map(({name, kind}) => [name, kind === "text" ? state.inputs[name] : state.files[name]?.base64]));
  return Object.values(found).every(Boolean) ? found : null;
}

/** A line with the turns before it, as many of them as the model was trained with; null if it is empty. */
function inConversation(text) {
  const turns = facts()?.turns;
  if (!text?.trim() || !turns) return text || null;
  return [...state.turns, text].slice(-turns.most).join(turns.separator);
}

/** Search for the answer to the input; the state has `result`, which grows while the search goes on. */
export async function search() {
  running?.abort();
  running = new AbortController();
  const given = input();
  const result = given === null || !facts() ? null : emptyResult(given, state.model);
  change({result});
  if (result) await follow(result, () => result === state.result && change({result}), running.signal);
}

/** Let a result grow to its end; `grown` is called after each event. */
export async function follow(result, grown, signal) {
  const began = performance.now();
  const {path: address, body: asked} = result.request;
  try {
    for await (const {event, data} of stream(address, asked, signal)) {
      take(result, event, data);
      grown();
    }
    if (!result.output) throw noAnswer(); // its stream has ended too soon
    result.ms = performance.now() - began;
    result.status = "done";
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof ApiError)) throw error;
    result.status = "failed";
    result.error = error;
  }
  grown();
  if (result.status === "done" && result.beam > 1) await addGreedy(result, grown, signal);
}

/** A result without an answer yet: of the chosen model, or of another one beside it. */
export function emptyResult(given, model, prefix = state.prefix) {
  const result = {
    input: given,
    model,
    prefix,
    options: {...state.options},
    lengthPenalty: option("length_penalty", model),
    beam: state.options.sample ? 1 : option("beam", model),
    trees: [[]], // the nodes of each part; a long text is answered in several
    text: "", // that no longer changes
    output: null,
    greedy: null, // the answer of greedy search, if it is not this one
    status: "searching",
    error: null,
    ms: 0,
  };
  return {...result, request: {path: "/v1/generate/stream", body: body(result)}};
}

/** The body of the request for an answer, with everything that is drawn. */
export function body({input: inputs, model, prefix, options, beam}) {
  const known = facts(model);
  return {
    inputs, ...named(model), ...options, ...(beam < 2 ? {} : {n_best: beam}), ...(prefix.length ? {prefix} : {}),
    ...(known.unwatchable ? {} : {search: true}), return: ["tokens", "token_ids", "log_probs", ...(known.attention ? ["attention"] : [])],
  };
}

/** How a result was searched for, in words. */
export const kindOfSearch = ({options, beam}) => (options.sample ? "a sample" : beam < 2 ? "greedy" : `beam ${beam}`);

/** What the server says of the input of the chosen model. */
export const explain = (path, more) => post(path, {inputs: state.result.input, ...more, ...named(state.model)});

/** The name of a model, where the server has several. */
export const named = (model) => (state.models.length > 1 || state.runs ? {model} : {});

const opening = new Map(); // runs that are being loaded

/** The facts of a model; a run of the server's folder is loaded first. */
export async function opened(name) {
  const known = state.models.find((model) => model.name === name);
  if (known || !state.runs) return known;
  if (!opening.has(name)) opening.set(name, post("/v1/run/open", {name}).finally(() => opening.delete(name)));
  const model = await opening.get(name);
  change({models: [...state.models.filter((one) => one.name !== name), model]});
  return model;
}

function take(result, event, data) {
  if (event === "text") result.text += data.text;
  else if (event === "search") (result.trees[data.part] ??= []).push(...data.nodes);
  else if (event === "done") finish(result, data);
  else throw new ApiError(500, data);
}

/** The update of a training that goes on, from which the weights of an answer are; null for all others. */
export function weightsOf({model, update}) {
  const [weights] = facts(model)?.weights ?? [];
  if (!weights || weights.ended || (update ?? null) === null) return null;
  const of = weights.updates ? ` of ${weights.updates.toLocaleString("en")}` : "";
  return `weights of update ${update.toLocaleString("en")}${of}`;
}

function finish(result, {output, update}) {
  result.output = output;
  result.update = update;
  result.text = output.text;
  if (output.trees) result.trees = output.trees.map((tree) => tree.nodes);
  result.rerankers = output.trees?.[0]?.rerankers ?? [];
}

/** The answer of greedy search beside that of the beam; without it the page shows as much as it has. */
async function addGreedy(result, grown, signal) {
  const {patience, n_best: _, search: __, ...asked} = result.request.body;
  const found = await post("/v1/generate", {...asked, beam: 1, return: ["tokens", "token_ids", "log_probs"]}, signal).catch(() => null);
  if (!found) return;
  result.greedy = found.outputs;
  grown();
}

/** The nodes from the root to a node; none for null. */
export function path(nodes, node) {
  const found = [];
  for (let one = node; one; one = nodes[one.parent]) found.unshift(one);
  return found;
}

/** The score by which finished answers are ordered. */
export const normalised = (total, length, penalty) => total / length ** penalty;
