"use strict";
// Without this script the page shows the points, and a sentence when the pointer rests on one.
const plane = document.getElementById("plane");
const layer = document.getElementById("labels");
const find = document.getElementById("find");
const count = document.getElementById("count");
const said = document.getElementById("said");
const hint = said.textContent;
const [width, height] = plane.getAttribute("viewBox").split(" ").slice(2).map(Number);
const LINE = 15, CELL = 4, LONGEST = 36, FARTHEST = 14; // in pixels, and letters of a label
const view = { x: 0, y: 0, scale: 1 }; // what is seen of the map: pixel = (place − (x, y)) · scale · unit + corner
const ruler = document.createElement("canvas").getContext("2d");
const points = Array.from(plane.querySelectorAll("circle"), readPoint);
const corner = { left: 0, top: 0 };
let radius = 4, unit = 1, wide = 1, high = 1, near = null, asked = 0;
plane.style.aspectRatio = `${width} / ${height}`;

function readPoint(circle) {
  const text = circle.textContent;
  circle.textContent = ""; // the browser's own, slower tip
  return { circle, text, x: Number(circle.getAttribute("cx")), y: Number(circle.getAttribute("cy")), found: false };
}

function cut(text, longest) {
  const letters = Array.from(text);
  return letters.length > longest ? letters.slice(0, longest - 1).join("") + "…" : text;
}

// The most isolated points get their labels first: they need them most, and they have room.
function byIsolation() {
  for (const one of points) {
    one.apart = Infinity;
    for (const other of points) {
      const away = (one.x - other.x) ** 2 + (one.y - other.y) ** 2;
      if (other !== one && away < one.apart) one.apart = away;
    }
  }
  return points.slice().sort((one, other) => other.apart - one.apart);
}
const order = byIsolation();

function draw() {
  asked = 0;
  [wide, high] = [plane.clientWidth, plane.clientHeight];
  radius = wide < 600 ? 3 : 4;
  unit = Math.min(wide / width, high / height); // the frame may be flatter than the map
  Object.assign(corner, { left: (wide - width * unit) / 2, top: (high - height * unit) / 2 });
  plane.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  for (const point of points) {
    point.left = (point.x - view.x) * view.scale * unit + corner.left;
    point.top = (point.y - view.y) * view.scale * unit + corner.top;
    point.circle.setAttribute("cx", point.left);
    point.circle.setAttribute("cy", point.top);
    point.circle.setAttribute("r", point === near ? radius + 2 : radius);
    point.circle.setAttribute("class", (point.found ? "found " : "") + (point === near ? "near" : ""));
  }
  write(places());
}

// A sheet of small cells, taken or free: no label lies on another, nor on a point.
function places() {
  const columns = Math.ceil(wide / CELL), rows = Math.ceil(high / CELL);
  const taken = new Uint8Array(columns * rows);
  const cells = function* (left, top, right, bottom) {
    for (let row = Math.floor(top / CELL); row <= Math.floor(bottom / CELL); row++)
      for (let column = Math.floor(left / CELL); column <= Math.floor(right / CELL); column++)
        yield row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : -1;
  };
  const seen = order.filter((p) => p.left > 0 && p.left < wide && p.top > 0 && p.top < high);
  const searching = points.some((p) => p.found); // then only what was found counts
  const named = seen.filter((p) => p === near || p.found || !searching);
  for (const p of named)
    for (const cell of cells(p.left - 3, p.top - 3, p.left + 3, p.top + 3)) if (cell >= 0) taken[cell] = 1;
  const labels = [];
  for (const point of named.sort((one, other) => (other === near) - (one === near))) {
    const text = cut(point.text, point === near ? 2 * LONGEST : LONGEST);
    ruler.font = `${point === near ? 600 : 400} 12px ${getComputedStyle(plane).fontFamily}`;
    const long = ruler.measureText(text).width, away = radius + 4;
    const choices = [
      [point.left + away, point.top - LINE / 2],
      [point.left - away - long, point.top - LINE / 2],
      [point.left - long / 2, point.top - away - LINE],
      [point.left - long / 2, point.top + away],
    ];
    const free = ([left, top]) => {
      for (const cell of cells(left - 2, top, left + long + 2, top + LINE)) if (cell < 0 || taken[cell]) return false;
      return true;
    };
    const inside = ([left, top]) => left > 0 && left + long < wide && top > 0 && top + LINE < high;
    const place = choices.find(free) || (point === near ? choices.find(inside) || choices[0] : null);
    if (!place) continue;
    for (const cell of cells(place[0] - 2, place[1], place[0] + long + 2, place[1] + LINE))
      if (cell >= 0) taken[cell] = 1;
    labels.push({ text, left: place[0], base: place[1] + 0.78 * LINE, near: point === near });
  }
  return labels;
}

function write(labels) {
  while (layer.childElementCount < labels.length)
    layer.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "text"));
  while (layer.childElementCount > labels.length) layer.lastChild.remove();
  labels.forEach((label, number) => {
    const text = layer.children[number];
    text.textContent = label.text;
    text.setAttribute("x", label.left);
    text.setAttribute("y", label.base);
    text.setAttribute("class", label.near ? "near" : "");
  });
}

function soon() {
  if (!asked) asked = requestAnimationFrame(draw);
}

function place(event) {
  const frame = plane.getBoundingClientRect();
  return { left: event.clientX - frame.left - plane.clientLeft, top: event.clientY - frame.top - plane.clientTop };
}

function zoom(factor, at) {
  const middle = at || { left: wide / 2, top: high / 2 };
  const scale = Math.min(200, Math.max(0.5, view.scale * factor));
  view.x += ((middle.left - corner.left) / unit) * (1 / view.scale - 1 / scale);
  view.y += ((middle.top - corner.top) / unit) * (1 / view.scale - 1 / scale);
  view.scale = scale;
  soon();
}

function move(left, top) {
  view.x -= left / (view.scale * unit);
  view.y -= top / (view.scale * unit);
  soon();
}

function whole() {
  Object.assign(view, { x: 0, y: 0, scale: 1 });
  soon();
}

function show(some) {
  const xs = some.map((p) => p.x), ys = some.map((p) => p.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  view.scale = Math.min(40, 0.7 * Math.min(width / (right - left + 1), height / (bottom - top + 1)));
  view.x = (left + right) / 2 - width / 2 / view.scale;
  view.y = (top + bottom) / 2 - height / 2 / view.scale;
  soon();
}

function search() {
  const wanted = find.value.trim().toLowerCase();
  for (const point of points) point.found = wanted !== "" && point.text.toLowerCase().includes(wanted);
  const found = points.filter((point) => point.found).length;
  plane.classList.toggle("searching", wanted !== "");
  count.textContent = wanted === "" ? "" : `${found} of ${points.length}${found ? "; Enter goes there" : ""}`;
  soon();
}

function point(at) {
  let best = null, least = FARTHEST ** 2;
  for (const one of points) {
    const away = (one.left - at.left) ** 2 + (one.top - at.top) ** 2;
    if (away < least) [best, least] = [one, away];
  }
  if (best === near) return;
  near = best;
  said.textContent = near ? near.text : hint;
  if (near) near.circle.parentNode.appendChild(near.circle); // on top of the others
  soon();
}

const fingers = new Map();
plane.addEventListener("pointerdown", (event) => {
  plane.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, place(event));
  point(place(event));
});
plane.addEventListener("pointermove", (event) => {
  const now = place(event), before = fingers.get(event.pointerId);
  if (!before) return point(now);
  const other = [...fingers].find(([id]) => id !== event.pointerId);
  if (other) {
    const apart = (one) => Math.hypot(one.left - other[1].left, one.top - other[1].top);
    zoom(apart(now) / Math.max(1, apart(before)), other[1]);
  } else {
    plane.classList.add("dragged");
    move(now.left - before.left, now.top - before.top);
  }
  fingers.set(event.pointerId, now);
});
for (const end of ["pointerup", "pointercancel"])
  plane.addEventListener(end, (event) => {
    fingers.delete(event.pointerId);
    plane.classList.remove("dragged");
  });
plane.addEventListener("pointerleave", () => point({ left: -1e9, top: -1e9 }));
plane.addEventListener("dblclick", (event) => zoom(2, place(event)));
plane.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    zoom(1.0015 ** -event.deltaY, place(event));
  },
  { passive: false },
);
plane.addEventListener("keydown", (event) => {
  const keys = {
    "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: whole,
    ArrowLeft: () => move(60, 0), ArrowRight: () => move(-60, 0), ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60),
  };
  if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  keys[event.key]();
});
document.getElementById("closer").addEventListener("click", () => zoom(1.4));
document.getElementById("farther").addEventListener("click", () => zoom(1 / 1.4));
document.getElementById("whole").addEventListener("click", whole);
find.addEventListener("input", search);
find.addEventListener("keydown", (event) => {
  const found = points.filter((point) => point.found);
  if (event.key === "Enter" && found.length) show(found);
  if (event.key === "Escape") {
    find.value = "";
    search();
    whole();
  }
});
addEventListener("resize", soon);
search(); // a browser may have kept what was typed before
draw();
