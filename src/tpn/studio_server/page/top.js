// The top: where one stands, progress, messages.

import { redo, undo } from "/page/actions.js";
import { exportDialog, helpDialog, importDialog } from "/page/dialogs.js";
import { readSetting, saveSetting } from "/page/grid.js";
import { on, store } from "/page/store.js";

const byId = (id) => document.getElementById(id);
const make = (kind, className, text) => {
  const element = document.createElement(kind);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

export function startTop() {
  byId("undo").addEventListener("click", undo);
  byId("redo").addEventListener("click", redo);
  byId("export").addEventListener("click", exportDialog);
  byId("import").addEventListener("click", importDialog);
  byId("help").addEventListener("click", helpDialog);
  byId("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    setTheme(dark ? "light" : "dark");
  });
  const chosen = readSetting("theme");
  if (chosen) setTheme(chosen);
  on("state", draw);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  saveSetting("theme", theme);
}

function draw() {
  const { state } = store;
  byId("title").textContent = state.title;
  byId("title").title = state.folder;
  document.title = `${state.title} · tpn studio`;
  for (const [id, word] of [["undo", "Undo"], ["redo", "Redo"]]) {
    byId(id).disabled = !state[id];
    byId(id).title = state[id] ? `${word}: ${state[id]}` : `Nothing to ${id}`;
  }
  byId("map-toggle").disabled = !state.map;
  byId("map-toggle").title = state.map ? "All pictures, similar ones close together (#)" : "The map is drawn when all pictures are embedded";
  byId("network").textContent = !state.backbone ? "" : state.backbone === "features" ? "Features: your own" : `Network: ${state.backbone}`;
  byId("network").title = state.advice;
  showProgress(state.progress);
  standing(state);
  if (state.folder_gone) banner(`The folder ${state.folder} is gone. Your labels are safe; connect it again to see the pictures.`, "gone");
  else if (state.progress.error) banner(state.progress.error, "error");
  else if (state.error) banner(state.error, "error");
  else clearBanner();
}

export function showProgress({ done, total, failed, error }) {
  const bar = byId("progress"), running = done < total && !error;
  bar.hidden = !running;
  bar.setAttribute("aria-valuenow", String(Math.round((100 * done) / Math.max(1, total))));
  bar.firstElementChild.style.width = `${(100 * done) / Math.max(1, total)}%`;
  if (store.state) { store.state.progress = { done, total, failed, error }; standing(store.state); }
}

const percent = (value) => `${(100 * value).toFixed(value > 0.995 && value < 1 ? 2 : value > 0.9 ? 1 : 0)} %`;

function standing(state) {
  const box = byId("standing"), { labels, expected, history, next } = state.standing;
  const { done, total, failed } = state.progress;
  const parts = [];
  if (done < total) parts.push(item(`${done.toLocaleString("en")} of ${total.toLocaleString("en")}`, "embedded"));
  parts.push(item(labels.toLocaleString("en"), labels === 1 ? "label" : "labels"));
  const guessed = state.guesses.version > 0 && expected > 0 && labels > 0 && state.classes.length > 0;
  if (guessed && expected > labels / Math.max(1, total)) {
    const right = item(percent(expected), `expected right of ${total.toLocaleString("en")}`);
    right.title = "The mean confidence of all guesses, corrected by how well your labels predict each other; labels count as right.";
    parts.push(right);
    if (history.length > 2) parts.push(spark(history));
    if (next !== null) {
      const stop = next < 0.002;
      const text = stop ? "little" : `+${(100 * next).toFixed(1)} %`;
      const more = item(text, "from the next 20 labels");
      more.title = stop ? "More labels bring little now: look through Doubtful and Check these, then export." : "Extrapolated from the effect of the labels so far.";
      parts.push(more);
    }
  } else if (state.classes.length > 1 && done < total && !state.progress.error) parts.push(make("span", "advice", "Guesses follow when more pictures are embedded"));
  else if (state.classes.length < 2) parts.push(make("span", "advice", labels ? "Label a picture of another class: then every picture gets a guess" : "Label a first picture: type the name of its class"));
  if (failed) { const bad = item(failed.toLocaleString("en"), "cannot be read"); bad.classList.add("bad"); bad.title = state.failed.join("\n"); parts.push(bad); }
  box.replaceChildren(...parts);
}

function item(value, text) {
  const element = make("span", "item");
  element.append(make("b", "", value), make("span", "", text));
  return element;
}

function spark(history) {
  const w = 96, h = 26, space = "http://www.w3.org/2000/svg";
  const most = Math.max(...history.map(([labels]) => labels), 1), least = Math.min(...history.map(([, right]) => right));
  const svg = document.createElementNS(space, "svg"), line = document.createElementNS(space, "polyline");
  svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "How the expected share has grown with your labels");
  const y = (right) => h - 3 - ((h - 6) * (right - least)) / Math.max(1e-6, 1 - least);
  line.setAttribute("points", history.map(([labels, right]) => `${((w - 4) * labels) / most + 2},${y(right).toFixed(1)}`).join(" "));
  const dot = document.createElementNS(space, "circle"), [labels, right] = history[history.length - 1];
  dot.setAttribute("cx", ((w - 4) * labels) / most + 2); dot.setAttribute("cy", y(right)); dot.setAttribute("r", 2.5);
  svg.append(line, dot);
  return svg;
}

export function banner(text, kind = "lost") {
  const box = byId("banner");
  box.textContent = text;
  box.hidden = !text;
  box.dataset.kind = kind;
}
function clearBanner() { if (byId("banner").dataset.kind !== "lost") banner(""); }

export function toast(text, bad = false) {
  const element = make("div", bad ? "toast bad" : "toast", text);
  byId("toasts").append(element);
  while (byId("toasts").children.length > 3) byId("toasts").firstChild.remove();
  setTimeout(() => element.remove(), bad ? 9000 : 2600);
}
