// Everything by keyboard: numbers and letters give classes, arrows move, Enter accepts.

import { accept, label, mark, redo, targets, undo } from "/page/actions.js";
import { colourOf } from "/page/colours.js";
import { close, enlarge, isEnlarged } from "/page/detail.js";
import { exportDialog, helpDialog } from "/page/dialogs.js";
import { columnCount, focus, pageRows, positionOf, redraw, refresh, reveal, show } from "/page/grid.js";
import { toggleMap } from "/page/map.js";
import { classes, emit, on, store } from "/page/store.js";
import { VIEWS } from "/page/views.js";

const byId = (id) => document.getElementById(id);
let chosen = 0;

export function startKeys() {
  document.addEventListener("keydown", onKey);
  byId("quick-text").addEventListener("input", () => { chosen = 0; drawQuick(); });
  byId("quick-text").addEventListener("keydown", onQuickKey);
  byId("quick-text").addEventListener("blur", () => setTimeout(closeQuick, 150));
  byId("search").addEventListener("input", () => { store.search = byId("search").value.trim(); refresh(); });
  on("selection", drawStatus);
  on("focus", drawStatus);
  on("order", drawStatus);
}

function drawStatus() {
  const count = store.selection.size || (store.focus >= 0 ? 1 : 0);
  byId("selected").textContent = store.selection.size ? `${count.toLocaleString("en")} selected of ${store.order.length.toLocaleString("en")}` : `${store.order.length.toLocaleString("en")} pictures`;
  byId("keys-hint").textContent = "1–9 or type: class · Enter: accept guess · 0: none of these · . : skip · Space: enlarge · ?: all keys";
}

// after a label: the next picture, in views that do not lose the labelled one by themselves
function advance(images) {
  const at = positionOf(images[images.length - 1]);
  store.selection.clear();
  if (at !== undefined) {
    const isNext = store.view.kind === "next" || store.view.kind === "doubtful" || store.view.kind === "unfamiliar";
    const after = store.order[Math.min(at + 1, store.order.length - 1)];
    if (images.length === 1 && after !== undefined) focus(after);
    if (isNext) { refresh(); reveal(store.focus); }
  }
  redraw();
  emit("selection");
}

export function give(name) {
  const images = targets();
  if (!images.length || !name) return;
  label(images, name);
  advance(images);
}

function giveMark(to) {
  const images = targets();
  if (!images.length) return;
  mark(images, to);
  if (to !== "clear") advance(images);
}

function onKey(event) {
  const typing = event.target.closest("input, textarea, select, dialog");
  const command = event.ctrlKey || event.metaKey;
  if (command && !typing) {
    const key = event.key.toLowerCase();
    if (key === "z") { event.preventDefault(); if (event.shiftKey) redo(); else undo(); }
    else if (key === "y") { event.preventDefault(); redo(); }
    else if (key === "e") { event.preventDefault(); exportDialog(); }
    else if (key === "a") { event.preventDefault(); store.selection = new Set(store.order); redraw(); emit("selection"); }
    return;
  }
  store.touched = true;
  if (typing || event.altKey || command) {
    if (event.key === "Escape" && event.target.id === "search") { byId("search").value = ""; store.search = ""; refresh(); byId("scroller").focus(); }
    return;
  }
  const onButton = event.target.closest("button, a, summary");
  const at = positionOf(store.focus), columns = columnCount();
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -columns * pageRows(), PageDown: columns * pageRows() };
  if (event.key in moves || event.key === "Home" || event.key === "End") {
    event.preventDefault();
    const step = moves[event.key], last = store.order.length - 1;
    const to = event.key === "Home" ? 0 : event.key === "End" ? last : Math.max(0, Math.min(last, (at === undefined ? -1 : at) + step));
    if (!event.shiftKey) store.selection.clear();
    focus(store.order[to], event.shiftKey);
    emit("selection");
    return;
  }
  if (event.key === "Escape") {
    if (isEnlarged()) close(); else { store.selection.clear(); redraw(); emit("selection"); }
    return;
  }
  if (onButton && (event.key === "Enter" || event.key === " ")) return;
  if (event.key === "Enter") { event.preventDefault(); const images = targets(); if (accept(images)) advance(images); return; }
  if (event.key === " ") { event.preventDefault(); if (isEnlarged()) close(); else if (store.focus >= 0) enlarge(store.focus); return; }
  if (event.key === "Delete" || event.key === "Backspace") { event.preventDefault(); giveMark("clear"); return; }
  if (/^[1-9]$/.test(event.key)) { const one = classes()[Number(event.key) - 1]; if (one) give(one.name); return; }
  if (event.key === "0") { giveMark("none"); return; }
  if (event.key === ".") { giveMark("skip"); return; }
  if (event.key === "?") { helpDialog(); return; }
  if (event.key === "/") { event.preventDefault(); byId("search").focus(); return; }
  if (event.key === "[" || event.key === "]") { cycle(event.key === "]" ? 1 : -1); return; }
  if (event.key === "#") { toggleMap(); return; }
  if (event.key.length === 1 && /\p{L}/u.test(event.key) && targets().length) { event.preventDefault(); openQuick(event.key); }
}

function cycle(step) {
  const kinds = [...Object.keys(VIEWS).filter((kind) => kind !== "lasso" || store.lasso.length).map((kind) => ({ kind })), ...classes().map((one) => ({ kind: "class", number: one.number }))];
  const at = kinds.findIndex((one) => one.kind === store.view.kind && one.number === store.view.number);
  show(kinds[(at + step + kinds.length) % kinds.length]);
}

// the box that opens when one types: the classes that begin so, then those that contain it, then a new one
export function openQuick(text) {
  byId("quick").hidden = false;
  byId("quick-text").value = text;
  byId("quick-text").focus();
  chosen = 0;
  drawQuick();
  reveal(store.focus);
}

function closeQuick() {
  if (byId("quick").hidden) return;
  byId("quick").hidden = true;
  if (document.activeElement === byId("quick-text") || document.activeElement === document.body) byId("scroller").focus({ preventScroll: true });
}

function candidates() {
  const text = byId("quick-text").value.trim(), low = text.toLowerCase();
  const names = classes().map((one) => one.name);
  const begin = names.filter((name) => name.toLowerCase().startsWith(low));
  const inside = names.filter((name) => !begin.includes(name) && name.toLowerCase().includes(low));
  const list = [...begin, ...inside].map((name) => ({ name, isNew: false }));
  if (text && !names.includes(text)) list.push({ name: text, isNew: true });
  return list.slice(0, 8);
}

function drawQuick() {
  const list = candidates();
  chosen = Math.max(0, Math.min(chosen, list.length - 1));
  byId("quick-list").replaceChildren(...list.map(({ name, isNew }, at) => {
    const row = document.createElement("button");
    row.type = "button";
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(at === chosen));
    const dot = document.createElement("span"), text = document.createElement("bdi");
    dot.className = isNew ? "dot plus" : "dot";
    if (isNew) dot.textContent = "+"; else dot.style.background = colourOf(classes().find((one) => one.name === name).number);
    text.textContent = isNew ? `New class: ${name}` : name;
    row.append(dot, text);
    row.addEventListener("pointerdown", (event) => { event.preventDefault(); take(name); });
    return row;
  }));
}

function take(name) { closeQuick(); byId("scroller").focus({ preventScroll: true }); give(name); }

function onQuickKey(event) {
  if (event.key === "Escape") { event.preventDefault(); closeQuick(); byId("scroller").focus({ preventScroll: true }); }
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); chosen += event.key === "ArrowDown" ? 1 : -1; drawQuick(); }
  else if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); const list = candidates(); if (list[chosen]) take(list[chosen].name); }
  event.stopPropagation();
}
