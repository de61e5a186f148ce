// The side: views and classes with their counts, and what can be done with a class.

import { accept, addClass } from "/page/actions.js";
import { colourOf } from "/page/colours.js";
import { classMenu } from "/page/dialogs.js";
import { show } from "/page/grid.js";
import { NONE, SKIP, classes, isGiven, on, shown, soon, store } from "/page/store.js";
import { toast } from "/page/top.js";
import { VIEWS, counts } from "/page/views.js";

let last = new Map();
export let current = null;

export function startSide() {
  const form = document.getElementById("new-class"), input = document.getElementById("new-class-name");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (input.value.trim() && (await addClass(input.value.trim()))) input.value = "";
  });
  document.getElementById("accept").addEventListener("click", () => {
    const sure = surest();
    if (sure.length) accept(sure);
  });
  const later = soon(draw);
  on("order", later);
  on("marked", later);
  on("selection", soon(drawAccept));
}

// the guesses above 90 % of the selection, or of the view
const isSure = (image) => !isGiven(image) && store.mark[image] !== SKIP && store.conf[image] >= 9000 && shown(image) !== -1;
const among = () => (store.selection.size ? Int32Array.from(store.selection) : store.order);
const surest = () => [...among().filter(isSure)];

function drawAccept() {
  const images = among(), button = document.getElementById("accept");
  let sure = 0;
  for (let at = 0; at < images.length; at++) if (isSure(images[at])) sure++;
  button.textContent = `Accept ${sure.toLocaleString("en")} above 90 %`;
  button.hidden = sure === 0;
}

function button(text, count, selected, run, colour, extra) {
  const element = document.createElement("button");
  element.type = "button";
  element.className = "entry";
  if (selected) element.setAttribute("aria-current", "true");
  const dot = document.createElement("span");
  dot.className = "dot";
  if (colour) dot.style.background = colour; else dot.classList.add("none");
  const name = document.createElement("bdi");
  name.className = "label";
  name.textContent = text;
  const number = document.createElement("span");
  number.className = "count";
  number.textContent = count.toLocaleString("en");
  element.append(dot, name, ...(extra || []), number);
  element.addEventListener("click", run);
  return element;
}

function draw() {
  const focused = document.activeElement && document.activeElement.closest("#side") ? document.activeElement.dataset.key : null;
  current = counts();
  const views = document.getElementById("views"), list = document.getElementById("classes");
  const rows = Object.keys(VIEWS).filter((kind) => kind !== "lasso" || store.lasso.length).map((kind) => {
    const element = button(VIEWS[kind][0], current.views[kind], store.view.kind === kind, () => show({ kind }));
    element.dataset.key = `view ${kind}`;
    element.dataset.view = kind;
    return element;
  });
  views.replaceChildren(...rows);
  const known = [...classes()];
  const none = (current.given.get(NONE) || 0) + (current.guessed.get(NONE) || 0);
  const entries = known.map((one, at) => entry(one.number, one.name, at < 9 ? String(at + 1) : ""));
  if (none) entries.push(entry(NONE, "none of these", "0"));
  list.replaceChildren(...entries);
  document.getElementById("class-count").textContent = known.length || "";
  if (!known.length) list.append(hint("A class is made when you first use it: select a picture and type its name."));
  drawAccept();
  last = new Map(known.map((one) => [one.number, total(one.number)]));
  if (focused) { const again = document.querySelector(`#side [data-key="${CSS.escape(focused)}"]`); if (again) again.focus(); }
}

const total = (number) => (current.given.get(number) || 0) + (current.guessed.get(number) || 0);

function entry(number, name, key) {
  const wrap = document.createElement("div");
  wrap.className = "class";
  const extra = [];
  if (key) { const mark = document.createElement("kbd"); mark.textContent = key; extra.push(mark); }
  const count = total(number), before = last.get(number);
  if (before !== undefined && before !== count) {
    const delta = document.createElement("span");
    delta.className = count > before ? "delta up" : "delta down";
    delta.textContent = `${count > before ? "+" : "−"}${Math.abs(count - before).toLocaleString("en")}`;
    extra.push(delta);
  }
  const selected = store.view.kind === "class" && store.view.number === number;
  const main = button(name, count, selected, () => show({ kind: "class", number }), colourOf(number), extra);
  main.dataset.key = `class ${number}`;
  main.dataset.class = name;
  main.title = `${(current.given.get(number) || 0).toLocaleString("en")} labelled, ${(current.guessed.get(number) || 0).toLocaleString("en")} guessed`;
  const bar = document.createElement("span");
  bar.className = "share";
  const given = document.createElement("span");
  given.style.width = `${count ? (100 * (current.given.get(number) || 0)) / count : 0}%`;
  given.style.background = colourOf(number);
  bar.append(given);
  wrap.append(main, bar);
  if (number !== NONE) {
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    more.textContent = "⋯";
    more.setAttribute("aria-label", `Rename, merge or colour ${name}`);
    more.addEventListener("click", () => classMenu(number));
    wrap.append(more);
  }
  return wrap;
}

function hint(text) {
  const element = document.createElement("p");
  element.className = "hint";
  element.textContent = text;
  return element;
}
