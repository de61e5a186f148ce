// The picture in focus: what it is likely to be and why; and enlarged.

import { label, mark } from "/page/actions.js";
import { getJson } from "/page/api.js";
import { colourOf } from "/page/colours.js";
import { focus, positionOf, show } from "/page/grid.js";
import { NONE, SKIP, isGiven, nameOf, on, shown, store } from "/page/store.js";

let asked = -1, known = null, timer = 0;

export function startDetail() {
  on("focus", ask);
  on("arrays", () => { draw(); });
  on("marked", draw);
  on("enlarge", enlarge);
  on("state", draw);
  document.getElementById("lightbox").addEventListener("click", close);
}

function ask() {
  if (store.focus === asked) return;
  asked = store.focus;
  known = null;
  draw();
  clearTimeout(timer);
  if (asked < 0) return;
  timer = setTimeout(async () => {
    const image = asked;
    try {
      const found = await getJson(`/api/images/${image}`);
      if (image === store.focus) { known = found; draw(); }
    } catch { /* the server says so elsewhere */ }
  }, 120);
  if (!document.getElementById("lightbox").hidden) enlarge(asked);
}

const make = (kind, className, text) => {
  const element = document.createElement(kind);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

function draw() {
  const panel = document.getElementById("detail"), image = store.focus;
  if (image < 0 || !store.n) { panel.replaceChildren(make("p", "hint", "Select a picture to see what it is likely to be, and why.")); return; }
  const old = panel.querySelector("img.large");
  const picture = old && old.dataset.image === String(image) ? old : make("img", "large");
  if (picture !== old) { picture.dataset.image = image; picture.src = `/thumbnails/${image}`; picture.alt = store.names[image]; picture.onerror = () => { picture.removeAttribute("src"); picture.alt = ""; }; }
  const parts = [picture, heading(image), guesses(image)];
  const doubt = store.state.check.find((one) => one.image === image && store.mark[image] === one.given);
  if (doubt) parts.push(make("p", "warning", `You labelled it ${nameOf(doubt.given)}. The other labels suggest ${nameOf(doubt.other)} (${Math.round(100 * doubt.sure)} %).`));
  if (known && known.image === image) {
    if (known.near.length) parts.push(make("h3", "", shown(image) >= 0 && !isGiven(image) ? "Because of these" : "Nearest labelled pictures"), strip(known.near));
    if (known.alike.length > 1) parts.push(make("h3", "", "Near-duplicates"), strip(known.alike.filter((one) => one !== image).slice(0, 6)));
    parts.push(facts(known));
  }
  panel.replaceChildren(...parts);
}

function heading(image) {
  const box = make("div", "what");
  const class_ = shown(image), skipped = store.mark[image] === SKIP;
  const dot = make("span", "dot");
  dot.style.background = colourOf(class_);
  const name = make("bdi", "", skipped ? "skipped" : class_ === -1 ? "no guess yet" : nameOf(class_));
  const how = make("span", "how", isGiven(image) ? "your label" : class_ === -1 || skipped ? "" : `guess, ${Math.floor(store.conf[image] / 100)} % sure`);
  box.append(dot, name, how);
  return box;
}

function guesses(image) {
  const box = make("div", "guesses");
  if (!store.best.length || isGiven(image)) {
    if (isGiven(image) || store.mark[image] === SKIP) {
      const clear = make("button", "", "Remove label");
      clear.type = "button";
      clear.addEventListener("click", () => mark([image], "clear"));
      box.append(clear);
    }
    return box;
  }
  for (let rank = 0; rank < 3; rank++) {
    const class_ = store.best[rank][image];
    if (class_ === -1 || !nameOf(class_)) continue;
    const row = make("button", "guess");
    row.type = "button";
    row.title = "Click to make this the label";
    const bar = make("span", "fill");
    bar.style.width = `${(100 * store.prob[rank][image]) / 255}%`;
    bar.style.background = colourOf(class_);
    row.append(bar, make("bdi", "", nameOf(class_)), make("span", "sure", `${rank ? Math.round((100 * store.prob[rank][image]) / 255) : Math.floor(store.conf[image] / 100)} %`));
    row.addEventListener("click", () => (class_ === NONE ? mark([image], "none") : label([image], nameOf(class_))));
    box.append(row);
  }
  if (store.best[0][image] !== -1 && store.fam[image] < 128) box.append(make("p", "warning", "Unlike all classes so far."));
  return box;
}

function strip(images) {
  const box = make("div", "strip");
  for (const image of images) {
    const one = make("button", "near");
    one.type = "button";
    one.title = `${nameOf(shown(image))}: ${store.names[image]}`;
    const picture = make("img");
    picture.src = `/thumbnails/${image}`;
    picture.alt = store.names[image];
    picture.onerror = () => picture.removeAttribute("src");
    const name = make("bdi", "", nameOf(shown(image)));
    one.style.borderColor = colourOf(shown(image));
    one.append(picture, name);
    one.addEventListener("click", () => { if (positionOf(image) === undefined) show({ kind: "all" }); focus(image); });
    box.append(one);
  }
  return box;
}

function facts(found) {
  const box = make("p", "facts");
  box.append(make("bdi", "", found.path));
  box.append(make("span", "", found.bytes < 0 ? "The file is gone." : found.bytes > 1e6 ? `${(found.bytes / 1e6).toFixed(1)} MB` : `${Math.max(1, Math.round(found.bytes / 1000))} KB`));
  return box;
}

export function enlarge(image) {
  const box = document.getElementById("lightbox"), [picture, caption] = box.children;
  picture.removeAttribute("src");
  picture.src = `/previews/${image}`;
  picture.alt = store.names[image];
  const class_ = shown(image);
  caption.replaceChildren(make("bdi", "", store.names[image]), make("span", "", class_ === -1 ? "" : `${nameOf(class_)}${isGiven(image) ? " ✓" : ` ${Math.floor(store.conf[image] / 100)} %`}`));
  box.hidden = false;
}

export function close() { document.getElementById("lightbox").hidden = true; }
export const isEnlarged = () => !document.getElementById("lightbox").hidden;
