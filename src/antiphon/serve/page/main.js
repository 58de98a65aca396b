// The frame: models, views, the address, keys, and saving.

import {Answer} from "./answer.js";
import {get} from "./api.js";
import {Attention} from "./attention.js";
import {Beam} from "./beam.js";
import {Compare} from "./compare.js";
import {fill, h, tool} from "./dom.js";
import {SentenceMap} from "./map.js";
import {Question} from "./question.js";
import {Runs} from "./runs.js";
import {openCode, openSave} from "./save.js";
import {opened, search} from "./search.js";
import {Step} from "./step.js";
import {address, change, enter, exemplify, fromAddress, onAsk, state, subscribe, undo} from "./store.js";

const VIEWS = {answer: Answer, beam: Beam, attention: Attention, step: Step, map: SentenceMap, compare: Compare, runs: Runs};
const byId = (id) => document.getElementById(id);
const links = () => byId("views").children;

const made = new Map(); // the views that have been opened
const question = new Question(byId("question"));

/** The view that is shown. */
function current() {
  if (!made.has(state.view)) made.set(state.view, new VIEWS[state.view]());
  return made.get(state.view);
}

function show(changed) {
  const models = byId("model");
  if (changed.has("models")) fill(models, state.models.map(({name}) => h("option", {value: name}, name)));
  if (changed.has("models") || changed.has("model")) models.value = state.model;
  question.update(changed);
  const view = current();
  const frame = byId("view");
  if (frame.firstElementChild !== view.element) fill(frame, view.element);
  document.body.dataset.view = state.view;
  for (const one of links()) one.dataset.view === state.view ? one.setAttribute("aria-current", "page") : one.removeAttribute("aria-current");
  view.update(changed);
  if (!changed.has("result")) keepAddress();
}

function keepAddress() {
  const here = address();
  for (const one of links()) one.href = here.replace(/^#\w+/, `#${one.dataset.view}`);
  if (location.hash !== here) history.replaceState(null, "", here);
}

subscribe(show);
onAsk(search);

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  change({theme: name});
}

function makeFrame() {
  fill(byId("views"), Object.keys(VIEWS).map((name) => h("a", {href: `#${name}`, "data-view": name}, name[0].toUpperCase() + name.slice(1))));
  fill(byId("tools"),
    tool("Light or dark", "◐", () => {
      const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      localStorage.setItem("antiphon-theme", other);
      setTheme(other);
    }),
    tool("Save this view", "⤓", (event) => openSave(event.currentTarget, current(), state)),
    tool("The request as curl and Python", "</>", (event) => openCode(event.currentTarget, current().request ?? state.result?.request)));
  byId("model").addEventListener("change", (event) => {
    const next = fromAddress(`#${state.view}`, state.models.filter(({name}) => name === event.target.value));
    enter({...next, inputs: sameText(next.inputs), files: {}, turns: []});
  });
}

/** The text that stands there, for another model that reads one text, too. */
function sameText(inputs) {
  const [names, before] = [Object.keys(inputs), Object.values(state.inputs)];
  return names.length === 1 && before.length === 1 ? {[names[0]]: before[0]} : inputs;
}

let visits = 0; // of addresses: while a run is loaded, another one may be asked for

addEventListener("hashchange", async () => {
  visits += 1;
  const visit = visits;
  const {next, problem} = await addressed();
  if (visit !== visits) return;
  const asked = ({inputs, options, prefix, model}) => JSON.stringify([inputs, options, prefix, model]);
  if (asked(next) === asked(state)) change({view: next.view, params: next.params, position: next.position});
  else enter({...next, ...(next.model === state.model ? {} : {files: {}, turns: []})}, {asks: !problem});
  if (problem) question.showProblem(problem);
});

addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select")) return;
  const command = event.ctrlKey || event.metaKey;
  if (state.prefix.length && (event.key === "Escape" || (command && event.key === "z"))) {
    event.preventDefault();
    undo();
  } else if (!command && !event.altKey && /^[1-9]$/.test(event.key)) links()[event.key - 1]?.click();
});

/** What the address asks for; a run that it names is loaded first. `problem`: there is no such model. */
async function addressed() {
  const {hash} = location; // as it was given: loading a run writes it anew
  const problem = await openNamed(new URLSearchParams(hash.split("?")[1]).get("model"));
  const next = fromAddress(hash, state.models);
  if (!(next.view in VIEWS)) next.view = "answer";
  return {hash, next, problem};
}

async function openNamed(name) {
  if (!name || state.models.some((model) => model.name === name)) return null;
  const waiting = h("p.quiet", {role: "status"}, `Loading ${name} …`);
  byId("question").before(waiting);
  try {
    return (await opened(name)) ? null : new Error(`This server has no model “${name}”.`);
  } catch (error) {
    return error;
  } finally {
    waiting.remove();
  }
}

async function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const system = () => (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = localStorage.getItem("antiphon-theme") ?? system();
  dark.addEventListener("change", () => localStorage.getItem("antiphon-theme") ?? setTheme(system()));
  try {
    const {models, limits, runs} = await get("/info");
    Object.assign(state, {models, limits, runs});
  } catch (error) {
    question.showProblem(error);
    return;
  }
  makeFrame();
  const {hash, next, problem} = await addressed();
  exemplify(next);
  if (!state.models.length || (state.runs && !hash)) next.view = "runs";
  change({...next, models: state.models}, {asks: state.models.length > 0 && !problem});
  if (problem) question.showProblem(problem);
}

start();
