// What the page knows: marks and guesses of all pictures in typed arrays, the selection, the view.

import { getBuffer, getJson, getText } from "/page/api.js";

export const NONE = -2, SKIP = -3;

export const store = {
  state: null, names: [], n: 0,
  mark: new Int16Array(0), best: [], conf: new Uint16Array(0), prob: [], fam: new Uint8Array(0), flags: new Uint8Array(0),
  version: 0, guessRevision: 0, markRevision: 0, next: [], groups: null, map: null,
  selection: new Set(), focus: -1, anchor: -1,
  view: { kind: "next" }, order: new Int32Array(0), search: "", touched: false, reversed: false, lasso: [],
};

const listeners = new Map();
export const on = (kind, run) => listeners.set(kind, [...(listeners.get(kind) || []), run]);
export const emit = (kind, value) => (listeners.get(kind) || []).forEach((run) => run(value));

// run once for all calls until the next frame; a tab in the background has no frames
export function soon(run) {
  let asked = false;
  const go = () => { if (asked) { asked = false; run(); } };
  return () => { if (!asked) { asked = true; requestAnimationFrame(go); setTimeout(go, 250); } };
}

let lastState = "", byNumber = [];
export async function loadState() {
  const text = await getText("/api/state");
  if (text === lastState) return;
  lastState = text;
  store.state = JSON.parse(text);
  byNumber = [];
  for (const one of store.state.classes) byNumber[one.number] = one;
  emit("state");
}

export async function loadNames() {
  store.names = await getJson("/api/names");
  store.n = store.names.length;
}

export async function loadArrays() {
  // guesses that are here already are not sent again
  const buffer = await getBuffer(`/api/arrays?have=${store.best.length ? store.version : -1}`);
  const [n, version, guessRevision, markRevision] = new Uint32Array(buffer, 0, 4);
  if (n !== store.n || version < store.version || markRevision < store.markRevision) return; // an older answer
  let at = 16;
  const take = (kind, count) => { const part = new kind(buffer, at, count); at += part.byteLength; return part; };
  store.mark = take(Int16Array, n);
  if (buffer.byteLength > 16 + 3 * n) {
    store.best = [0, 1, 2].map(() => take(Int16Array, n));
    store.conf = take(Uint16Array, n);
    store.prob = [0, 1, 2].map(() => take(Uint8Array, n));
    store.fam = take(Uint8Array, n);
  }
  store.flags = take(Uint8Array, n);
  Object.assign(store, { version, guessRevision, markRevision });
  pending.forEach((one, image) => { if (one.revision > markRevision) store.mark[image] = one.value; else pending.delete(image); });
  emit("arrays");
}

export async function loadNext() { store.next = await getJson("/api/next"); emit("next"); }
export async function loadGroups() { store.groups = new Int32Array(await getBuffer("/api/groups")); emit("groups"); }
export async function loadMap() {
  const places = new Float32Array(await getBuffer("/api/map"));
  store.map = places.length ? places : null;
  emit("map");
}

// marks that are shown already, with the revision that has them (Infinity: not confirmed yet)
export const pending = new Map();

export const classes = () => (store.state ? store.state.classes : []);
export const classOf = (number) => byNumber[number];
export function nameOf(number) {
  if (number === NONE) return "none of these";
  const found = classOf(number);
  return found ? found.name : "";
}
// the class of a picture: given, or guessed; -1 if neither
export function shown(image) {
  const mark = store.mark[image];
  if (mark >= 0 || mark === NONE) return mark;
  const guess = store.best.length ? store.best[0][image] : -1;
  return guess >= 0 && byNumber[guess] === undefined ? -1 : guess;
}
export const isGiven = (image) => store.mark[image] >= 0 || store.mark[image] === NONE;
export const confidence = (image) => (isGiven(image) ? 1 : store.conf[image] / 10000);
