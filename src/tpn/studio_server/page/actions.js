// What a user can do. Marks change in the page at once; the server confirms them when they are on disk.

import { act } from "/page/api.js";
import { NONE, SKIP, classes, emit, isGiven, loadArrays, loadState, nameOf, pending, shown, store } from "/page/store.js";
import { toast } from "/page/top.js";

const MARKS = { none: NONE, skip: SKIP, clear: -1 };

// the pictures that an action is for: the selection, or the one in focus
export function targets() {
  if (store.selection.size) return [...store.selection];
  return store.focus >= 0 ? [store.focus] : [];
}

// returns the revision that has the action, or 0 if it was refused
async function send(action, done) {
  try {
    return (await act(action)).revision;
  } catch (error) {
    toast(error.message, true);
    return 0;
  } finally {
    if (done) done();
  }
}

async function change(changes, shownValues) {
  const mine = [];
  for (const [images, value] of shownValues) {
    for (const image of images) {
      const one = { value, revision: Infinity };
      pending.set(image, one);
      mine.push([image, one]);
      store.mark[image] = value;
    }
  }
  if (mine.length) emit("marked");
  const revision = await send({ do: "label", changes });
  for (const [image, one] of mine) {
    one.revision = revision;
    if (!revision && pending.get(image) === one) pending.delete(image);
  }
  // the event of the action brings the new state; a refused one must be taken back here
  if (!revision) { store.markRevision = 0; await Promise.all([loadState(), loadArrays()]).catch(() => {}); }
}

export function label(images, name) {
  const known = classes().find((one) => one.name === name);
  const value = known ? known.number : -1;
  const sent = change([{ to: "label", label: name, images }], known ? [[images, value]] : []);
  return known ? sent : sent.then(() => Promise.all([loadState(), loadArrays()])).catch(() => {});
}

export function mark(images, to) {
  return change([{ to, images }], [[images, MARKS[to]]]);
}

// make guesses labels
export function accept(images) {
  const groups = new Map();
  for (const image of images) {
    const class_ = shown(image);
    if (isGiven(image) || class_ === -1) continue;
    if (!groups.has(class_)) groups.set(class_, []);
    groups.get(class_).push(image);
  }
  if (!groups.size) { toast("There is no guess to accept yet: label pictures of at least two classes."); return null; }
  const changes = [], values = [];
  groups.forEach((list, class_) => {
    changes.push(class_ === NONE ? { to: "none", images: list } : { to: "label", label: nameOf(class_), images: list });
    values.push([list, class_]);
  });
  return change(changes, values);
}

export async function undo() { if (await send({ do: "undo" })) toast("Undone"); await loadState(); }
export async function redo() { if (await send({ do: "redo" })) toast("Redone"); await loadState(); }
export const addClass = (name) => send({ do: "add class", name }, loadState);
export const renameClass = (name, to) => send({ do: "rename class", name, to }, loadState);
export const mergeClass = (name, into) => send({ do: "merge classes", name, into }, loadState);
export const colourClass = (name, colour) => send({ do: "colour class", name, colour }, loadState);
export const removeClass = (name) => send({ do: "remove class", name }, loadState);
