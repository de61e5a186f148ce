// The grid: only the tiles on the screen exist. Tiles move to their new places when guesses change.

import { colourOf } from "/page/colours.js";
import { SKIP, confidence, emit, isGiven, nameOf, on, shown, store } from "/page/store.js";
import { VIEWS, computeOrder, title } from "/page/views.js";

const GAP = 10, CAPTION = 34, SETTLE = 70, MOST_MOVED = 240;
const tiles = new Map(); // picture -> element
const spare = [];
let scroller, canvas, columns = 1, tile = 132, wish = 132, width = 0, settled = true, timer = 0;
let place = new Int32Array(0); // picture -> its place in the order, or -1

export const columnCount = () => columns;
export const pageRows = () => Math.max(1, Math.floor(scroller.clientHeight / rowHeight()) - 1);
const rowHeight = () => tile + CAPTION + GAP;

export function startGrid() {
  scroller = document.getElementById("scroller");
  canvas = document.getElementById("canvas");
  const size = document.getElementById("size");
  wish = Number(readSetting("tile")) || (innerWidth > 2000 ? 168 : 132);
  size.value = wish;
  size.addEventListener("input", () => { wish = Number(size.value); saveSetting("tile", wish); layout(); });
  scroller.addEventListener("scroll", () => {
    settled = false;
    scroller.classList.add("moving");
    clearTimeout(timer);
    timer = setTimeout(() => { settled = true; scroller.classList.remove("moving"); draw(); }, SETTLE);
    requestAnimationFrame(draw);
  }, { passive: true });
  new ResizeObserver(layout).observe(scroller);
  scroller.addEventListener("pointerdown", onPointer);
  scroller.addEventListener("dblclick", (event) => { if (imageAt(event) >= 0) emit("enlarge", imageAt(event)); });
  on("marked", () => draw(true));
}

export function readSetting(name) { try { return localStorage.getItem(`tpn-${name}`); } catch { return null; } }
export function saveSetting(name, value) { try { localStorage.setItem(`tpn-${name}`, value); } catch { /* private window */ } }

export function show(view) {
  store.view = view;
  store.selection.clear();
  store.reversed = false;
  store.touched = false;
  store.focus = -1;
  place = new Int32Array(0);
  scroller.scrollTop = 0;
  refresh();
  if (store.order.length && view.kind !== "next") focus(store.order[0]);
  emit("view");
}

// compute the order again; the picture in focus stays where it is on the screen
export function refresh() {
  if (!store.n || !store.state) return;
  const old = positionOf(store.focus), top = scroller.scrollTop;
  const before = new Map([...tiles].map(([image, element]) => [image, element.style.transform]));
  store.order = computeOrder();
  if (store.view.kind === "next" && !store.touched && store.order.length && store.focus !== store.order[0]) {
    store.focus = store.order[0];
    emit("focus");
  }
  if (place.length !== store.n) place = new Int32Array(store.n);
  place.fill(-1);
  for (let at = 0; at < store.order.length; at++) place[store.order[at]] = at;
  if (old !== undefined && positionOf(store.focus) === undefined) {
    store.focus = store.order.length ? store.order[Math.min(old, store.order.length - 1)] : -1;
    emit("focus");
  } else if (old !== undefined && store.focus >= 0) {
    const moved = (Math.floor(positionOf(store.focus) / columns) - Math.floor(old / columns)) * rowHeight();
    const onScreen = Math.floor(old / columns) * rowHeight() - top;
    if (moved && onScreen > -tile && onScreen < scroller.clientHeight && store.view.kind !== "next") scroller.scrollTop = top + moved;
  }
  for (const image of store.selection) if (positionOf(image) === undefined) store.selection.delete(image);
  if (store.focus < 0 && store.order.length) { store.focus = store.order[0]; emit("focus"); }
  layout();
  animate(before);
  const empty = document.getElementById("empty");
  empty.hidden = store.order.length > 0;
  empty.textContent = store.order.length ? "" : emptyText();
  const [name, hint] = title();
  document.getElementById("view-title").textContent = name;
  document.getElementById("view-hint").textContent = hint;
  emit("order");
}

function emptyText() {
  if (store.search) return "No file name here contains this text.";
  const texts = {
    next: "Every picture has a label. Export them, or look through Check these once more.",
    doubtful: "Nothing is doubtful.", unfamiliar: "Nothing is unlike all classes.",
    check: "No label is contradicted by the others. (Each class needs three labels or more to be checked.)",
    duplicates: store.state.progress.done < store.state.progress.total ? "Near-duplicates are searched for once all pictures are embedded." : "There are no near-duplicates.",
    labelled: "No labels yet. Begin with Label next.", lasso: "Draw around pictures on the map.",
  };
  return texts[store.view.kind] || (VIEWS[store.view.kind] ? "" : "No picture is of this class yet.");
}

function layout() {
  width = scroller.clientWidth - 2 * GAP;
  columns = Math.max(1, Math.floor((width + GAP) / (wish + GAP)));
  tile = Math.max(60, Math.floor((width + GAP) / columns) - GAP); // as wide as the columns allow
  canvas.style.height = `${Math.ceil(store.order.length / columns) * rowHeight() + GAP}px`;
  draw(true);
}

const translate = (at) => `translate(${GAP + (at % columns) * (tile + GAP)}px, ${GAP + Math.floor(at / columns) * rowHeight()}px)`;

function draw(all) {
  const row = rowHeight(), margin = 1;
  const first = Math.max(0, Math.floor(scroller.scrollTop / row) - margin) * columns;
  const last = Math.min(store.order.length, (Math.ceil((scroller.scrollTop + scroller.clientHeight) / row) + margin) * columns);
  for (const [image, element] of tiles) {
    const at = place[image];
    if (at >= first && at < last) continue;
    tiles.delete(image);
    element.firstChild.removeAttribute("src"); // ends a request that nobody waits for
    spare.push(element); // it stays in the page until it is known whether another picture needs it
  }
  for (let at = first; at < last; at++) {
    const image = store.order[at];
    let element = tiles.get(image);
    const fresh = !element;
    if (fresh) {
      element = spare.pop() || makeTile();
      element.dataset.image = image;
      element.className = "tile";
      tiles.set(image, element);
      if (!element.isConnected) canvas.append(element);
    }
    const to = translate(at);
    if (element.style.transform !== to) element.style.transform = to;
    if (fresh || all === true) fill(element, image);
    const picture = element.firstChild;
    if (settled && picture.dataset.image !== String(image)) {
      picture.dataset.image = image;
      picture.src = `/thumbnails/${image}`;
    } else if (settled && !picture.hasAttribute("src")) picture.src = `/thumbnails/${image}`;
  }
  for (const element of spare) if (element.isConnected) element.remove();
}

function makeTile() {
  const element = document.createElement("div");
  element.setAttribute("role", "option");
  const picture = document.createElement("img");
  picture.draggable = false;
  picture.decoding = "async";
  picture.addEventListener("load", () => picture.parentNode && picture.parentNode.classList.remove("gone"));
  picture.addEventListener("error", () => { if (picture.hasAttribute("src")) picture.parentNode.classList.add("gone"); });
  const bar = document.createElement("div");
  bar.className = "bar";
  const name = document.createElement("bdi"), sure = document.createElement("span");
  const file = document.createElement("bdi");
  name.className = "name"; sure.className = "sure"; file.className = "file";
  const line = document.createElement("div");
  line.className = "line";
  line.append(name, sure);
  element.append(picture, bar, line, file);
  return element;
}

function fill(element, image) {
  element.style.width = `${tile}px`;
  element.firstChild.style.height = `${tile}px`;
  const class_ = shown(image), given = isGiven(image), skipped = store.mark[image] === SKIP;
  const [picture, bar, line, file] = element.children;
  picture.alt = store.names[image];
  bar.style.background = class_ === -1 ? "transparent" : colourOf(class_);
  bar.style.width = given ? "100%" : `${Math.max(4, 100 * confidence(image))}%`;
  const text = skipped ? "skipped" : class_ === -1 ? (store.flags[image] === 2 ? "cannot be read" : "") : nameOf(class_);
  line.children[0].textContent = text;
  line.children[1].textContent = given ? "✓" : class_ === -1 || skipped ? "" : `${Math.floor(100 * confidence(image))} %`;
  file.textContent = store.names[image].slice(store.names[image].lastIndexOf("/") + 1);
  element.title = store.names[image];
  const flags = { given, skipped, selected: store.selection.has(image), focus: image === store.focus, gone: store.flags[image] === 2 };
  for (const [name, value] of Object.entries(flags)) if (name !== "gone" || value) element.classList.toggle(name, value);
  element.setAttribute("aria-selected", String(flags.selected || flags.focus));
  const now = `${class_}`;
  if (element.dataset.class !== undefined && element.dataset.owner === String(image) && element.dataset.class !== now) flash(element);
  element.dataset.class = now;
  element.dataset.owner = image;
}

const calm = matchMedia("(prefers-reduced-motion: reduce)");
function flash(element) {
  if (!calm.matches) element.animate([{ opacity: 0.45 }, { opacity: 1 }], { duration: 400, easing: "ease-out" });
}

function animate(before) {
  if (calm.matches || tiles.size > MOST_MOVED) return;
  for (const [image, element] of tiles) {
    const from = before.get(image);
    if (from && from !== element.style.transform) {
      element.animate([{ transform: from }, { transform: element.style.transform }], { duration: 220, easing: "cubic-bezier(.2,.7,.2,1)" });
    } else if (!from && before.size) element.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 200 });
  }
}

export function redraw() { draw(true); }

export function focus(image, extend = false) {
  if (image === undefined || image < 0) return;
  store.touched = true;
  if (extend && positionOf(store.anchor) !== undefined) {
    const [from, to] = [positionOf(store.anchor), positionOf(image)].sort((a, b) => a - b);
    store.selection = new Set(store.order.subarray(from, to + 1));
  } else { store.anchor = image; }
  store.focus = image;
  reveal(image);
  redraw();
  emit("focus");
}

export function reveal(image) {
  const at = positionOf(image);
  if (at === undefined) return;
  const top = Math.floor(at / columns) * rowHeight(), bottom = top + rowHeight() + GAP;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (bottom > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = bottom - scroller.clientHeight;
}

export const positionOf = (image) => (place[image] >= 0 ? place[image] : undefined);

function imageAt(event) {
  const element = event.target.closest(".tile");
  return element ? Number(element.dataset.image) : -1;
}

// click, ctrl-click, shift-click; a drag that begins beside a tile draws a rectangle
function onPointer(event) {
  if (event.button !== 0 || event.offsetX > scroller.clientWidth) return;
  const image = imageAt(event);
  scroller.focus({ preventScroll: true });
  if (image >= 0) {
    if (event.shiftKey) focus(image, true);
    else if (event.ctrlKey || event.metaKey) {
      if (!store.selection.size && store.focus >= 0) store.selection.add(store.focus);
      if (!store.selection.delete(image)) store.selection.add(image);
      focus(image);
    } else { store.selection.clear(); focus(image); }
    emit("selection");
  }
  rectangle(event, image);
}

function rectangle(event, from) {
  const box = scroller.getBoundingClientRect();
  const x0 = event.clientX - box.left, y0 = event.clientY - box.top + scroller.scrollTop;
  const kept = event.ctrlKey || event.metaKey || event.shiftKey ? new Set(store.selection) : new Set();
  let frame = null;
  const move = (now) => {
    const x = now.clientX - box.left, y = now.clientY - box.top + scroller.scrollTop;
    if (!frame && Math.hypot(x - x0, y - y0) < 12) return;
    if (!frame) { frame = document.createElement("div"); frame.className = "rectangle"; canvas.append(frame); scroller.setPointerCapture(event.pointerId); }
    const [left, right] = [Math.min(x, x0), Math.max(x, x0)], [top, bottom] = [Math.min(y, y0), Math.max(y, y0)];
    Object.assign(frame.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
    store.selection = new Set(kept);
    const row = rowHeight();
    for (let r = Math.max(0, Math.floor((top - GAP) / row)); r <= Math.floor((bottom - GAP) / row); r++) {
      for (let c = 0; c < columns; c++) {
        const x1 = GAP + c * (tile + GAP), at = r * columns + c;
        if (at < store.order.length && x1 < right && x1 + tile > left) store.selection.add(store.order[at]);
      }
    }
    redraw();
    emit("selection");
    if (now.clientY > box.bottom - 20) scroller.scrollTop += 12; else if (now.clientY < box.top + 20) scroller.scrollTop -= 12;
  };
  const end = () => {
    if (frame) frame.remove();
    scroller.removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
  };
  scroller.addEventListener("pointermove", move);
  addEventListener("pointerup", end);
}
