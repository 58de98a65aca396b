// The frame: models, views, the address, keys, and saving.

import {Answer} from "./answer.js";
import {get} from "./api.js";
import {Attention} from "./attention.js";
import {Beam} from "./beam.js";
import {Compare} from "./compare.js";
import {fill, h} from "./dom.js";
import {SentenceMap} from "./map.js";
import {Question} from "./question.js";
import {Runs} from "./runs.js";
import {openCode, openSave} from "./save.js";
import {opened, search} from "./search.js";
import {Step} from "./step.js";
import {address, change, enter, fromAddress, onAsk, state, subscribe, undo} from "./store.js";

const VIEWS = {
  answer: {title: "Answer", View: Answer},
  beam: {title: "Beam", View: Beam},
  attention: {title: "Attention", View: Attention},
  step: {title: "Step", View: Step},
  map: {title: "Map", View: SentenceMap},
  compare: {title: "Compare", View: Compare},
  runs: {title: "Runs", View: Runs},
};

const made = new Map(); // the views that have been opened
const question = new Question(document.getElementById("question"));

/** The view that is shown. */
function current() {
  const {View} = VIEWS[state.view];
  if (!made.has(state.view)) made.set(state.view, new View());
  return made.get(state.view);
}

function show(changed) {
  if (changed.has("models")) fill(document.getElementById("model"), state.models.map((model) => h("option", {value: model.name}, model.name)));
  if (changed.has("models") || changed.has("model")) document.getElementById("model").value = state.model;
  question.update(changed);
  const view = current();
  const frame = document.getElementById("view");
  if (frame.firstElementChild !== view.element) fill(frame, view.element);
  document.body.dataset.view = state.view;
  for (const link of document.querySelectorAll("#views a")) link.dataset.view === state.view ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  view.update(changed);
  if (!changed.has("result")) keepAddress();
}

function keepAddress() {
  const here = address();
  for (const link of document.querySelectorAll("#views a")) link.href = here.replace(/^#\w+/, `#${link.dataset.view}`);
  if (location.hash !== here) history.replaceState(null, "", here);
}

subscribe(show);
onAsk(search);

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  change({theme: name});
}

function makeFrame() {
  fill(document.getElementById("views"), Object.entries(VIEWS).map(([name, {title}]) => h("a", {href: `#${name}`, "data-view": name}, title)));
  const tool = (name, text, onclick) => h("button", {type: "button", "aria-label": name, title: name, onclick}, text);
  fill(document.getElementById("tools"),
    tool("Light or dark", "◐", () => {
      const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      localStorage.setItem("antiphon-theme", other);
      setTheme(other);
    }),
    tool("Save this view", "⤓", (event) => openSave(event.currentTarget, current(), state)),
    tool("The request as curl and Python", "</>", (event) => openCode(event.currentTarget)));
  const models = document.getElementById("model");
  models.addEventListener("change", () => {
    const next = fromAddress(`#${state.view}`, state.models.filter((model) => model.name === models.value));
    enter({...next, inputs: sameText(next.inputs), files: {}, turns: []});
  });
}

/** The text that stands there, for another model that reads one text, too. */
function sameText(inputs) {
  const [names, before] = [Object.keys(inputs), Object.values(state.inputs)];
  return names.length === 1 && before.length === 1 ? {[names[0]]: before[0]} : inputs;
}

addEventListener("hashchange", async () => {
  const {hash} = location; // as it was given: loading a run writes it anew
  const problem = await openAddressed();
  const next = fromAddress(hash, state.models);
  if (!(next.view in VIEWS)) next.view = "answer";
  const same = JSON.stringify([next.inputs, next.options, next.prefix, next.model]) === JSON.stringify([state.inputs, state.options, state.prefix, state.model]);
  if (same) change({view: next.view, params: next.params, position: next.position});
  else enter({...next, ...(next.model === state.model ? {} : {files: {}, turns: []})}, {asks: !problem});
  if (problem) question.showProblem(problem);
});

addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "Escape" && !typing && state.prefix.length) undo();
  if (event.key === "z" && (event.ctrlKey || event.metaKey) && !typing && state.prefix.length) {
    event.preventDefault();
    undo();
  }
  if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey && /^[1-9]$/.test(event.key)) {
    document.getElementById("views").children[Number(event.key) - 1]?.click();
  }
});

/** Load the run that the address names; the error if there is no such model. */
async function openAddressed() {
  const name = new URLSearchParams(location.hash.split("?")[1] ?? "").get("model");
  if (!name || state.models.some((model) => model.name === name)) return null;
  const waiting = h("p", {class: "quiet", role: "status"}, `Loading ${name} …`);
  document.getElementById("question").before(waiting);
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
  document.documentElement.dataset.theme = localStorage.getItem("antiphon-theme") ?? (dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => localStorage.getItem("antiphon-theme") ?? setTheme(dark.matches ? "dark" : "light"));
  try {
    const {models, limits, runs} = await get("/info");
    Object.assign(state, {models, limits, runs});
  } catch (error) {
    question.showProblem(error);
    return;
  }
  makeFrame();
  const {hash} = location; // as it was given: loading a run writes it anew
  const problem = await openAddressed();
  const next = fromAddress(hash, state.models);
  if (!(next.view in VIEWS)) next.view = "answer";
  const [only] = Object.keys(next.inputs);
  const [example] = state.models.find((model) => model.name === next.model)?.examples ?? [];
  if (example && !next.inputs[only]) next.inputs[only] = example;
  if (!state.models.length || (state.runs && !hash)) next.view = "runs";
  change({...next, models: state.models}, {asks: state.models.length > 0 && !problem});
  if (problem) question.showProblem(problem);
}

start();
