// A search tree as SVG: it grows by adding nodes, and what stands stays.

import {BOX, arc, layout} from "./beam_layout.js";
import {fill, isEnd, number, probability, rect, s, setAttributes, shown} from "./dom.js";
import {path} from "./search.js";

/** A drawing of the nodes of a search; `handlers` has chosen(node), pointed(node or null). */
export class BeamDrawing {
  constructor(handlers) {
    this.handlers = handlers;
    this.ghosts = s("g.ghosts");
    this.arcs = s("g.arcs");
    this.boxes = s("g.boxes");
    this.rule = s("line.strip");
    this.svg = s("svg.beam", {role: "group", "aria-label": "The search tree"}, this.ghosts, this.rule, this.arcs, this.boxes);
    this.drawn = new Map(); // id of a node → {arc, box, label, sum}
    this.nodes = [];
    this.place = layout([], 1);
    this.inProbabilities = false;
    this.zoom = 1;
    this.height = 0;
  }

  /** Draw the nodes up to a step; those that stand already only change their marks. */
  draw(nodes, {beam, until, marks, fresh}) {
    if (fresh) this.clear();
    this.nodes = nodes;
    this.place = layout(nodes, beam);
    const visible = nodes.filter((node) => node.step <= until);
    const ids = new Set(visible.map((node) => node.id));
    for (const id of this.drawn.keys()) if (id !== "root" && !ids.has(id)) this.remove(id);
    if (nodes.length && !this.drawn.has("root")) this.addRoot();
    for (const node of visible) if (!this.drawn.has(node.id)) this.add(node);
    for (const node of visible) this.mark(node, marks);
    this.resize();
  }

  clear() {
    this.held ||= this.boxes.contains(document.activeElement); // the focus comes back to the tree
    this.drawn.clear();
    fill(this.arcs);
    fill(this.boxes);
    this.height = 0;
  }

  remove(id) {
    const {arc: line, box} = this.drawn.get(id);
    line.remove();
    box.remove();
    this.drawn.delete(id);
  }

  addRoot() {
    const {x, y, width} = this.place.root;
    const box = s("g.node.root", {transform: `translate(${x} ${y})`},
      rect(0, 0, width, BOX, {rx: 7}), s("text.token", {x: width / 2, y: 23}, "<s>"));
    this.boxes.append(box);
    this.drawn.set("root", {arc: box, box});
  }

  add(node) {
    const at = this.place.boxes.get(node.id);
    const label = s("text.step-value", {x: at.x - 6, y: at.y + BOX / 2 - 5});
    const line = s("g.arc", s("path", {d: arc(before(this.place, node), at)}), label);
    const sum = s("text.sum", {x: at.width / 2, y: 29});
    const now = () => this.nodes[node.id]; // the whole trace, at the end, has nodes of its own
    const box = s("g", {
      class: "node", transform: `translate(${at.x} ${at.y})`, tabindex: -1, role: "button", "data-id": node.id,
      onclick: () => this.handlers.chosen(now()), onpointerenter: () => this.point(now()), onpointerleave: () => this.point(null),
      onfocus: () => this.point(now()), onblur: () => this.point(null), onkeydown: (event) => this.move(event, now()),
    }, rect(0, 0, at.width, BOX, {rx: isEnd(node.token) ? 0 : 7}), s("text.token", {x: at.width / 2, y: 15}, shown(node.token)), sum,
    s("circle.greedy-dot", {cx: at.width, cy: 0, r: 3.5}));
    this.arcs.append(line);
    this.boxes.append(box);
    const parts = {arc: line, box, label, sum};
    this.drawn.set(node.id, parts);
    this.write(node, parts);
  }

  write(node, {box, label, sum}) {
    const say = (value) => (this.inProbabilities ? probability(Math.exp(value)) : number(value));
    label.textContent = say(node.log_prob);
    sum.textContent = say(node.total);
    const words = path(this.nodes, node).map((one) => shown(one.token)).join(" ");
    box.setAttribute("aria-label", `${words}: log p ${number(node.log_prob)}, sum ${number(node.total)}, ${node.status}`);
  }

  /** Numbers on the arcs and in the nodes: log probabilities, or probabilities. */
  show(inProbabilities) {
    this.inProbabilities = inProbabilities;
    for (const node of this.nodes) if (this.drawn.has(node.id)) this.write(node, this.drawn.get(node.id));
  }

  mark(node, {winner, greedy, locked}) {
    const parts = this.drawn.get(node.id);
    const {arc: line, box} = parts;
    const names = [node.status, winner.has(node.id) && "winner", greedy.has(node.id) && "greedy", locked > node.step && "locked"].filter(Boolean).join(" ");
    if (parts.names === names) return;
    parts.names = names;
    line.setAttribute("class", `arc ${names}`);
    box.setAttribute("class", `node ${names}`);
    if (winner.has(node.id)) this.arcs.append(line); // above the paler ones
  }

  /** Another tree, in outlines behind this one; nodes that both have are left out. */
  ghost(nodes, beam) {
    if (!nodes.length && !this.ghostWidth) return;
    const place = layout(nodes, beam);
    const here = new Set(this.nodes.map((node) => pathKey(this.nodes, node)));
    const gone = nodes.filter((node) => node.status !== "pruned" && !here.has(pathKey(nodes, node)));
    fill(this.ghosts, gone.map((node) => {
      const at = place.boxes.get(node.id);
      return [s("path", {d: arc(before(place, node), at)}), rect(at.x, at.y, at.width, BOX, {rx: 7})];
    }));
    this.ghostWidth = gone.length ? place.width : 0;
    this.resize();
  }

  point(node) {
    const on = new Set(path(this.nodes, node).map((one) => one.id));
    for (const [id, {arc: line, box}] of this.drawn) {
      line.classList.toggle("pointed", on.has(id));
      box.classList.toggle("pointed", on.has(id));
    }
    this.handlers.pointed(node);
  }

  /** Arrow keys: left to the parent, right to the best child, up and down within the step. */
  move(event, node) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.handlers.chosen(node);
    }
    const row = this.nodes.filter((one) => one.step === node.step && this.drawn.has(one.id));
    const place = row.indexOf(node);
    const next = {
      ArrowLeft: () => this.nodes[node.parent ?? -1],
      ArrowRight: () => this.nodes.find((one) => one.parent === node.id && this.drawn.has(one.id)),
      ArrowUp: () => row[place - 1],
      ArrowDown: () => row[place + 1],
    }[event.key]?.();
    if (event.key.startsWith("Arrow")) event.preventDefault();
    if (next) this.focus(next.id);
  }

  /** One node takes part in the order of the Tab key: this one, or quietly only if none has the focus. */
  focus(id, {quiet = false} = {}) {
    if (quiet && this.boxes.contains(document.activeElement)) return;
    for (const parts of this.drawn.values()) parts.box.setAttribute("tabindex", -1);
    const box = this.drawn.get(id)?.box;
    box?.setAttribute("tabindex", 0);
    if (!quiet || (this.held && document.activeElement === document.body)) box?.focus({preventScroll: quiet});
    this.held = false;
  }

  resize() {
    const {width, height, strip} = this.place;
    this.width = Math.max(width, this.ghostWidth ?? 0);
    this.height = Math.max(this.height, height);
    setAttributes(this.svg, {viewBox: `0 0 ${this.width} ${this.height}`, width: this.width * this.zoom, height: this.height * this.zoom});
    setAttributes(this.rule, {x1: 0, x2: this.width, y1: strip, y2: strip});
  }
}

const before = ({root, boxes}, node) => (node.parent === null ? root : boxes.get(node.parent));

const pathKey = (nodes, node) => path(nodes, node).map((one) => one.token_id).join(" ");

/** The ids of the nodes along tokens, from the start. */
export function along(nodes, tokens) {
  const found = [];
  let parent = null;
  for (const token of tokens) {
    const node = nodes.find((one) => one.parent === parent && one.token_id === token);
    if (!node) break;
    found.push(node);
    parent = node.id;
  }
  return found;
}
