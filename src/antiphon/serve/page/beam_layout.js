// Where the nodes of a search tree stand. A pure function of the nodes: a node that stands never moves.

import {shown, textWidth} from "./dom.js";

export const ROW = 46; // from one row to the next
export const BOX = 36; // height of a node
const GAP = 70; // between two columns: the curve of an arc, then its number
const CURVE = 0.42; // the share of the gap in which an arc bends; behind it stand the numbers, which no arc crosses
const NARROWEST = 50;
const ROOT = 34;
const MARGIN = 14;
const STRIP = 0.3; // rows between the frontier and the pruned candidates

/** {root, boxes, width, height, strip}: x is the step, y the rank; pruned candidates stand below the frontier. */
export function layout(nodes, beam) {
  const steps = [];
  for (const node of nodes) (steps[node.step] ??= []).push(node);
  const boxes = new Map();
  let [x, rows] = [MARGIN + ROOT + GAP, beam];
  for (const column of steps) {
    const width = Math.max(NARROWEST, ...column.map((node) => textWidth(shown(node.token), 14, 600) + 18));
    let [row, below] = [0, 0];
    const kept = column.filter((node) => node.status !== "pruned").length;
    const first = Math.max(beam, kept) + STRIP;
    for (const node of column) {
      const place = node.status === "pruned" ? first + below++ : row++;
      boxes.set(node.id, {node, x, y: MARGIN + place * ROW, width});
      rows = Math.max(rows, place + 1);
    }
    x += width + GAP;
  }
  const root = {x: MARGIN, y: MARGIN, width: ROOT};
  return {root, boxes, width: x - GAP + MARGIN, height: 2 * MARGIN + rows * ROW, strip: MARGIN + (beam + STRIP / 2) * ROW - (ROW - BOX) / 2};
}

/** The arc into a box from its parent. */
export function arc(from, to) {
  const [x1, y1, x2, y2] = [from.x + from.width, from.y + BOX / 2, to.x, to.y + BOX / 2];
  const bend = x2 - GAP + GAP * CURVE;
  const middle = (x1 + bend) / 2;
  return y1 === y2 ? `M${x1} ${y1}H${x2}` : `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${bend} ${y2}H${x2}`;
}
