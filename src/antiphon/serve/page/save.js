// Saving a view: SVG, PNG, JSON, one HTML file; and the request behind it.

import {asCode} from "./api.js";
import {choice, copy, fill, h, setAttributes} from "./dom.js";

let opened = null;

/** A small panel under a button of the frame; a second click closes it. */
function panel(button, label, ...content) {
  const again = opened?.button === button;
  close();
  if (again) return;
  const element = h("div.panel", {role: "dialog", "aria-label": label}, content);
  button.closest("header").append(element);
  button.setAttribute("aria-expanded", "true");
  opened = {button, element};
  element.querySelector("button, pre")?.focus();
}

function close(back = false) {
  if (!opened) return;
  opened.element.remove();
  opened.button.setAttribute("aria-expanded", "false");
  if (back) opened.button.focus();
  opened = null;
}

addEventListener("pointerdown", (event) => {
  if (opened && !opened.element.contains(event.target) && !opened.button.contains(event.target)) close();
});

addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !opened) return;
  event.stopPropagation(); // it is not meant for what was steered
  close(true);
}, {capture: true});

/** The panel that saves what a view shows. */
export function openSave(button, view, {view: name, model}) {
  const picture = view.picture?.();
  const data = view.data?.();
  if (!picture && !data) return panel(button, "Save", h("p", "There is nothing to save yet."));
  const title = `${model}-${name}`;
  const kinds = Object.keys(SAVE).filter((kind) => (kind === "JSON" ? data : kind === "HTML" || picture));
  panel(button, "Save", h("p", "Save this view as"), h("p.row", kinds.map((kind) => h("button", {onclick: async () => {
    await SAVE[kind](title, picture, data, view.table?.());
    close(true);
  }}, kind))));
}

/** The panel with the request behind the page. */
export function openCode(button, request) {
  if (!request) return panel(button, "Request", h("p", "Nothing has been asked yet."));
  const code = asCode(request);
  const pre = h("pre", {tabindex: 0});
  const tabs = Object.keys(code).map((name) => choice(name, false, () => show(name)));
  const show = (name) => {
    fill(pre, code[name]);
    for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab.textContent === name));
  };
  panel(button, "The request behind this page", h("p.row", tabs, h("button", {onclick: () => copy(pre.textContent)}, "copy")), pre);
  show("curl");
}

const SAVE = {
  SVG: async (title, picture) => download(`${title}.svg`, "image/svg+xml", await standalone(picture)),
  PNG: async (title, picture) => download(`${title}.png`, "image/png", await raster(await standalone(picture), picture)),
  JSON: async (title, _, data) => download(`${title}.json`, "application/json", JSON.stringify(data, null, 1)),
  HTML: async (title, picture, data, rows) => download(`${title}.html`, "text/html", await onePage(title, picture, data, rows)),
};

function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], {type}));
  h("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** The text of the picture with its styles and colours in it; as text, for a style element would break the policy. */
async function standalone(picture) {
  const clone = picture.cloneNode(true);
  const css = await (await fetch("/page/figures.css")).text();
  const here = getComputedStyle(document.documentElement);
  const values = [...new Set(`${css} ${clone.outerHTML}`.match(/--[\w-]+/g))].map((name) => `${name}: ${here.getPropertyValue(name)}`).join("; ");
  for (const image of clone.querySelectorAll("image")) image.setAttribute("href", await embedded(image.getAttribute("href")));
  const [, , width, height] = clone.getAttribute("viewBox").split(/\s+/);
  setAttributes(clone, {xmlns: "http://www.w3.org/2000/svg", width, height});
  const style = `<style>svg { ${values}; font-family: system-ui, sans-serif; background: ${here.getPropertyValue("--ground")} }\n${css}</style>`;
  return new XMLSerializer().serializeToString(clone).replace(">", () => `>${style}`);
}

async function embedded(address) {
  if (address.startsWith("data:")) return address;
  const blob = await (await fetch(address)).blob();
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(blob);
  });
}

async function raster(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const scale = 2;
  const canvas = h("canvas", {width: image.width * scale, height: image.height * scale});
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ground");
  pen.fillRect(0, 0, image.width, image.height);
  pen.drawImage(image, 0, 0);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const LAYOUT = "body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem } svg { max-width: 100%; height: auto } td, th { text-align: left; padding: .1rem 1rem .1rem 0 } pre { overflow: auto; max-height: 20rem }";

/** One file without scripts and without anything from elsewhere: the picture, its table, its data. */
async function onePage(title, picture, data, rows) {
  const folded = (name, content) => h("details", h("summary", name), content);
  const body = [h("h1", title), rows ? folded("As a table", rows) : null, folded("Data", h("pre", JSON.stringify(data, null, 1)))];
  const [heading, ...rest] = body.filter(Boolean).map((element) => element.outerHTML);
  const head = `<meta charset="utf-8"><title>${h("p", title).innerHTML}</title><style>${LAYOUT}</style>`;
  return `<!doctype html>\n<html lang="en"><head>${head}</head><body>${heading}${picture ? await standalone(picture) : ""}${rest.join("")}</body></html>`;
}
