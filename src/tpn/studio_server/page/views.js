// Views: which pictures are shown, and in which order. Computed in one pass over typed arrays.

import { NONE, SKIP, isGiven, nameOf, shown, store } from "/page/store.js";

export const VIEWS = {
  next: ["Label next", "What would help most, one after the other. Press a number, or type the first letters of a class."],
  doubtful: ["Doubtful", "Guesses below 90 %, the most doubtful first. Enter accepts the guess of each selected picture."],
  unfamiliar: ["Unfamiliar", "Unlike all classes so far: perhaps a class that has no label yet, or none of these (key 0)."],
  check: ["Check these", "Your labels that the other labels contradict, the surest first."],
  duplicates: ["Near-duplicates", "Pictures that are almost the same, side by side. A label for one counts for all of a group."],
  labelled: ["Labelled by you", "All labels that were given."],
  all: ["Everything", "All pictures, by file name."],
  lasso: ["Selection on the map", "The pictures that you drew around."],
};

const DOUBTFUL = 9000, UNFAMILIAR = 128;

export const isOpen = (i) => store.mark[i] === -1 && store.flags[i] !== 2;
const hasGuess = (i) => store.best.length > 0 && store.best[0][i] !== -1;
export const isDoubtful = (i) => isOpen(i) && hasGuess(i) && store.conf[i] < DOUBTFUL;
const isUnfamiliar = (i) => isOpen(i) && hasGuess(i) && store.fam[i] < UNFAMILIAR;
const margin = (i) => (hasGuess(i) ? store.prob[0][i] - store.prob[1][i] : 0);

// sort numbers by a key from 0 to 65535; ties by number
function sorted(images, key) {
  const keyed = new Float64Array(images.length);
  for (let at = 0; at < images.length; at++) keyed[at] = key(images[at]) * 16777216 + images[at];
  keyed.sort();
  const order = new Int32Array(images.length);
  for (let at = 0; at < order.length; at++) order[at] = keyed[at] % 16777216;
  return order;
}

function pick(test) {
  const found = [];
  for (let i = 0; i < store.n; i++) if (test(i)) found.push(i);
  return found;
}

// numbers of pictures by class; NONE and -1 are classes too
class Tally {
  constructor() { this.numbers = new Int32Array(64); }
  add(class_) {
    if (class_ + 3 >= this.numbers.length) { const more = new Int32Array(2 * (class_ + 3)); more.set(this.numbers); this.numbers = more; }
    this.numbers[class_ + 3]++;
  }
  get(class_) { return this.numbers[class_ + 3] || 0; }
}

export function counts() {
  const views = { next: 0, doubtful: 0, unfamiliar: 0, check: 0, duplicates: 0, labelled: 0, all: store.n, lasso: store.lasso.length };
  const given = new Tally(), guessed = new Tally();
  for (let i = 0; i < store.n; i++) {
    if (isOpen(i)) views.next++;
    if (isDoubtful(i)) views.doubtful++;
    if (isUnfamiliar(i)) views.unfamiliar++;
    if (isGiven(i)) views.labelled++;
    if (store.groups && store.groups[i] >= 0) views.duplicates++;
    (isGiven(i) ? given : guessed).add(shown(i));
  }
  views.check = store.state ? store.state.check.filter((one) => store.mark[one.image] === one.given).length : 0;
  return { views, given, guessed };
}

export function computeOrder() {
  const { kind, number } = store.view;
  let order;
  if (kind === "next") {
    // the picture that one looks at stays the first until it has a label
    const kept = store.touched && store.focus >= 0 && isOpen(store.focus) ? [store.focus] : [];
    const first = [...kept, ...store.next.filter((i) => isOpen(i) && i !== kept[0])], taken = new Set(first);
    const rest = sorted(pick((i) => isOpen(i) && !taken.has(i)), margin);
    order = new Int32Array(first.length + rest.length);
    order.set(first);
    order.set(rest, first.length);
  } else if (kind === "class") {
    const members = pick((i) => shown(i) === number && store.mark[i] !== SKIP);
    order = sorted(members, (i) => (isGiven(i) ? 0 : 1 + (10000 - store.conf[i])));
  } else if (kind === "doubtful") order = sorted(pick(isDoubtful), (i) => store.conf[i]);
  else if (kind === "unfamiliar") order = sorted(pick(isUnfamiliar), (i) => store.fam[i]);
  else if (kind === "check") order = Int32Array.from(store.state.check.filter((one) => store.mark[one.image] === one.given).map((one) => one.image));
  else if (kind === "duplicates") order = store.groups ? sorted(pick((i) => store.groups[i] >= 0), (i) => store.groups[i]) : new Int32Array(0);
  else if (kind === "labelled") order = Int32Array.from(pick(isGiven));
  else if (kind === "lasso") order = Int32Array.from(store.lasso);
  else order = Int32Array.from({ length: store.n }, (_, i) => i);
  if (store.reversed) order.reverse();
  if (store.search) {
    const wanted = store.search.toLowerCase();
    order = order.filter((i) => store.names[i].toLowerCase().includes(wanted));
  }
  return order;
}

export function title() {
  const { kind, number } = store.view;
  if (kind !== "class") return VIEWS[kind];
  const hint = number === NONE ? "Of none of the classes." : "Labels first, then guesses from sure to doubtful.";
  return [nameOf(number), hint];
}
