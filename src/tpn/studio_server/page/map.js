// The map: every picture a point, alike ones together. WebGL, or a plain canvas where there is none.

import { colourOf, rgb } from "/page/colours.js";
import { focus, positionOf, show } from "/page/grid.js";
import { confidence, isGiven, nameOf, on, shown, soon, store } from "/page/store.js";

const VERTEX = `attribute vec2 place; attribute vec4 look; uniform vec4 view; uniform float scale; varying vec4 tone;
void main() { gl_Position = vec4((place - view.xy) * view.zw, 0.0, 1.0); gl_PointSize = look.a * scale; tone = vec4(look.rgb, 1.0); }`;
const FRAGMENT = `precision mediump float; varying vec4 tone; uniform float alpha;
void main() { vec2 at = gl_PointCoord - 0.5; float r = length(at); if (r > 0.5) discard; gl_FragColor = vec4(tone.rgb, alpha * smoothstep(0.5, 0.42, r)); }`;

let box, canvas, gl = null, plain = null, program, buffers, count = 0, visible = false, asked = false, index = null;
const view = { x: 0, y: 0, zoom: 0.9 };

export function startMap() {
  box = document.getElementById("map");
  canvas = document.getElementById("map-canvas");
  document.getElementById("map-toggle").addEventListener("click", toggleMap);
  const later = soon(upload);
  on("map", () => { index = null; count = 0; upload(); });
  for (const kind of ["arrays", "marked", "state"]) on(kind, later);
  on("selection", request); on("focus", request);
  canvas.addEventListener("wheel", onWheel, { passive: false });
  canvas.addEventListener("pointerdown", onDown);
  canvas.addEventListener("pointermove", onHover);
  canvas.addEventListener("pointerleave", () => { document.getElementById("map-tip").hidden = true; });
  canvas.addEventListener("dblclick", () => { Object.assign(view, { x: 0, y: 0, zoom: 0.9 }); request(); });
  new ResizeObserver(request).observe(box);
}

export function toggleMap() {
  if (!store.map) return;
  visible = !visible;
  box.hidden = !visible;
  document.getElementById("map-toggle").setAttribute("aria-pressed", String(visible));
  if (visible) { if (!gl && !plain) prepare(); upload(); }
}

function prepare() {
  gl = canvas.getContext("webgl", { antialias: true, premultipliedAlpha: false, alpha: true });
  if (!gl) { plain = canvas.getContext("2d"); return; }
  program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  gl.useProgram(program);
  buffers = { place: gl.createBuffer(), look: gl.createBuffer() };
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
}

let looks = new Float32Array(0);
function upload() {
  if (!visible || !store.map || !store.n) return;
  if (looks.length !== 4 * store.n) looks = new Float32Array(4 * store.n);
  const tones = new Map();
  const base = store.n > 20000 ? 3 : store.n > 3000 ? 5 : 8;
  for (let i = 0; i < store.n; i++) {
    const class_ = shown(i);
    let tone = tones.get(class_);
    if (!tone) { tone = rgb(colourOf(class_)); tones.set(class_, tone); }
    looks[4 * i] = tone[0]; looks[4 * i + 1] = tone[1]; looks[4 * i + 2] = tone[2];
    looks[4 * i + 3] = Number.isNaN(store.map[2 * i]) ? 0 : isGiven(i) ? base * 1.6 : base * (0.75 + 0.9 * (1 - confidence(i)));
  }
  if (gl) {
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers.look);
    gl.bufferData(gl.ARRAY_BUFFER, looks, gl.DYNAMIC_DRAW);
    if (count !== store.n) { gl.bindBuffer(gl.ARRAY_BUFFER, buffers.place); gl.bufferData(gl.ARRAY_BUFFER, store.map.map((v) => (Number.isNaN(v) ? 9 : v)), gl.STATIC_DRAW); count = store.n; }
  }
  request();
}

function request() { if (!asked && visible) { asked = true; requestAnimationFrame(paint); } }

function aspect() {
  const w = canvas.width, h = canvas.height, short = Math.min(w, h);
  return [view.zoom * Math.min(1, (1.7 * short) / w), view.zoom * Math.min(1, (1.7 * short) / h)];
}

function paint() {
  asked = false;
  if (!visible) return;
  const ratio = devicePixelRatio || 1, w = Math.round(box.clientWidth * ratio), h = Math.round(box.clientHeight * ratio);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const [sx, sy] = aspect(), grow = Math.min(3, Math.sqrt(Math.max(1, view.zoom)));
  const marked = [...(store.selection.size < 5000 ? store.selection : []), ...(store.focus >= 0 ? [store.focus] : [])];
  if (gl) {
    gl.viewport(0, 0, w, h);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    for (const [name, size] of [["place", 2], ["look", 4]]) {
      const at = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, size, gl.FLOAT, false, 0, 0);
    }
    gl.uniform4f(gl.getUniformLocation(program, "view"), view.x, view.y, sx, sy);
    gl.uniform1f(gl.getUniformLocation(program, "scale"), ratio * grow);
    gl.uniform1f(gl.getUniformLocation(program, "alpha"), store.n > 20000 ? 0.7 : 0.85);
    gl.drawArrays(gl.POINTS, 0, store.n);
  } else {
    plain.clearRect(0, 0, w, h);
    for (let i = 0; i < store.n; i++) {
      const [x, y] = toScreen(i, ratio), r = looks[4 * i + 3] * ratio * 0.5;
      plain.fillStyle = colourOf(shown(i));
      plain.fillRect(x - r, y - r, 2 * r, 2 * r);
    }
  }
  rings(marked);
}

// rings around what is selected and in focus, as SVG: there are few
function rings(images) {
  const svg = document.getElementById("lasso");
  [...svg.querySelectorAll("circle")].forEach((one) => one.remove());
  for (const image of images.slice(0, 1500)) {
    if (Number.isNaN(store.map[2 * image])) continue;
    const [x, y] = toScreen(image, 1), ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    ring.setAttribute("cx", x); ring.setAttribute("cy", y); ring.setAttribute("r", image === store.focus ? 8 : 5);
    if (image === store.focus) ring.setAttribute("class", "focus");
    svg.append(ring);
  }
}

function toScreen(image, ratio) {
  const [sx, sy] = aspect();
  return [((store.map[2 * image] - view.x) * sx + 1) * 0.5 * box.clientWidth * ratio, (1 - (store.map[2 * image + 1] - view.y) * sy) * 0.5 * box.clientHeight * ratio];
}
function toMap(x, y) {
  const [sx, sy] = aspect();
  return [((2 * x) / box.clientWidth - 1) / sx + view.x, (1 - (2 * y) / box.clientHeight) / sy + view.y];
}

function onWheel(event) {
  event.preventDefault();
  const before = toMap(event.offsetX, event.offsetY);
  view.zoom = Math.max(0.5, Math.min(60, view.zoom * Math.exp(-event.deltaY * 0.0015)));
  const after = toMap(event.offsetX, event.offsetY);
  view.x += before[0] - after[0];
  view.y += before[1] - after[1];
  request();
}

// the nearest picture, by a coarse grid over the map
function nearest(x, y, most) {
  if (!index) {
    index = new Map();
    for (let i = 0; i < store.n; i++) { const key = cell(store.map[2 * i], store.map[2 * i + 1]); if (!index.has(key)) index.set(key, []); index.get(key).push(i); }
  }
  const [mx, my] = toMap(x, y);
  let found = -1, best = most * most;
  for (let dx = -0.04; dx <= 0.041; dx += 0.04) for (let dy = -0.04; dy <= 0.041; dy += 0.04) {
    for (const i of index.get(cell(mx + dx, my + dy)) || []) {
      const [px, py] = toScreen(i, 1), square = (px - x) ** 2 + (py - y) ** 2;
      if (square < best) { best = square; found = i; }
    }
  }
  return found;
}
const cell = (x, y) => `${Math.floor(x / 0.04)},${Math.floor(y / 0.04)}`;

function onHover(event) {
  const tip = document.getElementById("map-tip");
  if (event.buttons || !store.map) { tip.hidden = true; return; }
  const image = nearest(event.offsetX, event.offsetY, 12);
  tip.hidden = image < 0;
  if (image < 0) return;
  if (tip.dataset.image !== String(image)) { tip.dataset.image = image; tip.children[0].src = `/thumbnails/${image}`; tip.children[1].textContent = nameOf(shown(image)); }
  tip.style.left = `${Math.min(event.offsetX + 14, box.clientWidth - 120)}px`;
  tip.style.top = `${Math.min(event.offsetY + 14, box.clientHeight - 140)}px`;
}

function onDown(event) {
  const polygon = document.querySelector("#lasso polygon"), path = [[event.offsetX, event.offsetY]];
  const pan = event.button === 1 || event.ctrlKey || event.metaKey;
  let last = [event.offsetX, event.offsetY];
  canvas.setPointerCapture(event.pointerId);
  const move = (now) => {
    if (pan) {
      const from = toMap(...last), to = toMap(now.offsetX, now.offsetY);
      view.x += from[0] - to[0]; view.y += from[1] - to[1];
      last = [now.offsetX, now.offsetY];
      request();
      return;
    }
    path.push([now.offsetX, now.offsetY]);
    polygon.setAttribute("points", path.map((one) => one.join(",")).join(" "));
  };
  const end = () => {
    canvas.removeEventListener("pointermove", move);
    canvas.removeEventListener("pointerup", end);
    polygon.setAttribute("points", "");
    if (pan) return;
    const extent = Math.max(...path.map(([x]) => x)) - Math.min(...path.map(([x]) => x)) + Math.max(...path.map(([, y]) => y)) - Math.min(...path.map(([, y]) => y));
    if (extent < 10) {
      const image = nearest(...path[0], 14);
      if (image >= 0) { if (positionOf(image) === undefined) show({ kind: "all" }); focus(image); }
      return;
    }
    const corners = path.map(([x, y]) => toMap(x, y)), found = [];
    for (let i = 0; i < store.n; i++) if (inside(store.map[2 * i], store.map[2 * i + 1], corners)) found.push(i);
    if (!found.length) return;
    store.lasso = found;
    show({ kind: "lasso" });
    store.selection = new Set(found);
    focus(found[0]);
  };
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", end);
}

function inside(x, y, corners) {
  let within = false;
  for (let a = 0, b = corners.length - 1; a < corners.length; b = a++) {
    const [ax, ay] = corners[a], [bx, by] = corners[b];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
  }
  return within;
}
