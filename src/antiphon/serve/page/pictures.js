// Attention over what is no text: a picture word by word, and a spectrogram over time.

import {calm, fill, h, number, rect, s, shown, svg, textWidth, theme} from "./dom.js";
import {state} from "./store.js";

const PAUSE = 700; // milliseconds a word, when it is played
const LINE = 20; // height of a line of words above a spectrogram
const LINES = 8; // at most
const room = () => document.getElementById("view").clientWidth; // in pixels

/** The drawing of weights [T][S] over the sources that are files; `choose(place)` selects a word. */
export function drawOver({weights, rows, files: spans, signed, words}, source, choose) {
  if (!source) return h("p.quiet", "…");
  if (source.error) return h("p.quiet", source.error.message);
  const parts = spans.map((span) => ({span, read: source.sources[span.source]})).filter(({span}) => span.kind !== "text");
  const most = Math.max(...parts.flatMap(({span}) => weights.flatMap((row) => row.slice(span.first, span.last + 1))));
  const count = Math.max(...parts.map(({span}) => span.last - span.first + 1));
  const top = Math.max(most, signed ? 0.1 : Math.min(1, 4 / count)); // weights that are all alike do not look like a finding
  const place = Math.min(state.position, rows.length - 1);
  const groups = words ?? rows.map((text, t) => ({text, first: t, last: t}));
  const large = parts.map(({span, read}) => over(span, read, weights[place], top, (w) => timed(groups, weights.map((row) => row.slice(span.first, span.last + 1)), w, place, choose)));
  const strip = h("div.film", rows.map((name, t) => h("button", {class: t === place ? "film-frame here" : "film-frame", "aria-pressed": String(t === place), onclick: () => choose(t)},
    parts.map(({span, read}) => over(span, read, weights[t], top)), h("span", shown(name)))));
  return h("div.over-view",
    h("div.controls", player(rows.length, choose), h("span.quiet", signed ? `the brighter, the more log p falls without it; full brightness is ${number(top)}` : `the brighter, the more attention; full brightness is ${number(top)}`, parts.some(({span}) => span.kind === "image") ? "; a cell has also seen its surroundings" : "")),
    large, h("p.over-word", rows.slice(0, place + 1).map((name, t) => h("span", {class: t === place ? "now" : ""}, `${shown(name)} `))), strip);
}

/** `above` makes what stands above a spectrogram of a width; only the large drawing has it. */
function over(span, read, weights, top, above) {
  const mine = weights.slice(span.first, span.last + 1);
  return span.kind === "audio" || !read.picture ? overSound(read, mine, top, above) : overImage(span, read, mine, top, Boolean(above));
}

/** A picture, dimmed where the model does not look. */
function overImage({grid}, {picture, width, height}, weights, top, large) {
  const [rows, columns] = grid;
  const scale = large ? Math.min(520 / width, room() / width, 420 / height) : Math.min(96 / width, 80 / height);
  const [w, t] = [width * scale, height * scale];
  const [wide, high] = [w / columns, t / rows];
  const cells = weights.map((value, index) => rect((index % columns) * wide, Math.floor(index / columns) * high, wide, high, {class: "dim", "fill-opacity": (0.85 * (1 - Math.min(1, value / top))).toFixed(3)}, large && s("title", number(value, 3))));
  return svg(large ? "over" : "over.small-over", w, t, "The picture, brighter where the model looks", s("image", {href: picture, width: w, height: t, preserveAspectRatio: "none"}), cells);
}

/** A spectrogram with the attention over time below it, and above it the words at their times. */
function overSound({values, frames, bands, seconds}, weights, top, above) {
  const [w, t, band] = above ? [Math.min(900, room()), 160, 70] : [96, 40, 24];
  const words = above?.(w);
  const y = words?.height ?? 0;
  const height = y + t + band + (above ? 24 : 0);
  const points = weights.map((value, j) => `${(((j + 0.5) * w) / weights.length).toFixed(1)} ${(t + band - band * Math.min(1, value / top)).toFixed(1)}`);
  const ticks = above && seconds ? [0, 0.25, 0.5, 0.75, 1].map((share) => s("text", {x: share * w, y: t + band + 18, class: `small ${share === 0 ? "start" : share === 1 ? "end" : ""}`}, `${number(seconds * share)} s`)) : null;
  return svg(above ? "over" : "over.small-over", w, height, above ? "Words above the time at which the model looked; the spectrogram; and, below it, the attention over time" : "The spectrogram and the attention over time",
    words?.drawn, s("g", {transform: `translate(0 ${y})`}, s("image", {href: spectrogram(values, frames, bands), width: w, height: t, preserveAspectRatio: "none"}),
      s("path", {d: `M0 ${t + band}L${points.join("L")}L${w} ${t + band}Z`, class: "curve"}), words?.now === undefined ? null : s("line.looked", {x1: words.now, x2: words.now, y1: 0, y2: t}), ticks));
}

/** Each word above the time at which its tokens looked most; where one has no room, it stands a line higher. */
function timed(words, weights, w, place, choose) {
  const lines = []; // where the last word of each ends
  const found = words.map(({text, first, last}) => {
    const sums = weights[0].map((_, j) => weights.slice(first, last + 1).reduce((sum, row) => sum + row[j], 0));
    return {name: shown(text), first, here: first <= place && place <= last, at: ((sums.indexOf(Math.max(...sums)) + 0.5) * w) / sums.length};
  }).sort((one, other) => one.at - other.at);
  for (const word of found) {
    const width = textWidth(word.name, 14, 600) + 10;
    word.x = Math.max(width / 2, Math.min(w - width / 2, word.at));
    const free = lines.findIndex((end) => end <= word.x - width / 2);
    word.line = free < 0 ? lines.length : free;
    if (word.line < LINES) lines[word.line] = word.x + width / 2;
  }
  const height = lines.length * LINE + 8;
  const rest = found.filter(({line}) => line === LINES);
  const now = found.find(({here}) => here);
  return {height, now: now?.at, drawn: [
    found.filter(({line}) => line < LINES).map(({name, first, here, x, line}) => s("text", {x, y: height - 14 - line * LINE, class: here ? "timed here" : "timed", onclick: () => choose(first)}, name)),
    found.map(({at, here}) => s("line", {class: here ? "looked" : "tick", x1: at, x2: at, y1: height - 7, y2: height})),
    rest.length ? s("text.small.end", {x: w, y: 12}, `and ${rest.length} more`, s("title", rest.map(({name}) => name).join(" "))) : null]};
}

const painted = new Map(); // spectrograms as data: URLs

function spectrogram(values, frames, bands) {
  const key = `${theme()} ${values}`;
  if (painted.has(key)) return painted.get(key);
  const bytes = Uint8Array.from(atob(values), (one) => one.charCodeAt(0));
  const canvas = h("canvas", {width: frames, height: bands});
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(frames, bands);
  for (let x = 0; x < frames; x += 1) {
    for (let y = 0; y < bands; y += 1) {
      const value = bytes[x * bands + (bands - 1 - y)] / 255;
      const dark = theme() === "dark" ? value : 1 - value;
      image.data.set([18 + 230 * dark, 30 + 222 * dark, 46 + 207 * dark, 255], 4 * (y * frames + x));
    }
  }
  pen.putImageData(image, 0, 0);
  painted.clear();
  painted.set(key, canvas.toDataURL());
  return painted.get(key);
}

let [timer, playing] = [0, false];

/** Walks through the words, as long as this view is shown. */
function player(count, choose) {
  clearTimeout(timer);
  const next = () => {
    playing = state.view === "attention";
    if (playing) choose(state.position + 1);
  };
  playing &&= state.position + 1 < count;
  if (playing) timer = setTimeout(next, calm() ? 2 * PAUSE : PAUSE);
  return h("button.play-words", {"aria-label": playing ? "Pause" : "Play", onclick: () => {
    playing = !playing;
    choose(playing ? 0 : state.position);
  }}, playing ? "❙❙" : "▶");
}
