// The start of the page: load, listen, and bring everything together.

import { listen } from "/page/api.js";
import { emit, loadArrays, loadGroups, loadMap, loadNames, loadNext, loadState, on, soon, store } from "/page/store.js";
import { startGrid, refresh } from "/page/grid.js";
import { startSide } from "/page/side.js";
import { startDetail } from "/page/detail.js";
import { startTop, showProgress, banner } from "/page/top.js";
import { startKeys } from "/page/keys.js";
import { startMap } from "/page/map.js";

// one request of a kind at a time; what happens meanwhile is asked for once more: the last answer wins
function newest(load) {
  let running = false, again = false;
  return async function run() {
    if (running) { again = true; return; }
    running = true;
    try { await load(); } catch (error) { banner(error.message); }
    running = false;
    if (again) { again = false; run(); }
  };
}

const state = newest(loadState), arrays = newest(loadArrays), next = newest(loadNext);
const groups = newest(loadGroups), map = newest(loadMap);
// a page shows its own labels already, and new guesses bring the rest: another request beside them would slow them down
const WAIT_FOR_GUESSES = 600;
let lost = false, lastProgress = 0, waiting = 0;

function loadAll() { clearTimeout(waiting); arrays(); state(); }

function onEvent(event) {
  if (lost) { lost = false; store.version = 0; store.markRevision = 0; banner(""); state(); arrays(); next(); groups(); map(); }
  if (event.kind === "hello" || event.kind === "progress") {
    showProgress(event);
    const now = performance.now();
    if (now - lastProgress > 1000 || event.done === event.total) { lastProgress = now; arrays(); }
    if (event.done === event.total || event.error) state();
  } else if (event.kind === "acted" && event.do === "label") { clearTimeout(waiting); waiting = setTimeout(loadAll, WAIT_FOR_GUESSES); }
  else if (event.kind === "acted" || event.kind === "guesses") loadAll();
  else if (event.kind === "next") next();
  else if (event.kind === "check" || event.kind === "state") state();
  else if (event.kind === "groups") groups();
  else if (event.kind === "map") { map(); state(); }
}

async function begin() {
  startTop(); startSide(); startGrid(); startDetail(); startKeys(); startMap();
  try {
    await Promise.all([loadNames(), loadState()]);
    await loadArrays();
    emit("ready");
    refresh();
    await Promise.all([loadNext(), loadGroups(), loadMap()]);
  } catch (error) { banner(error.message); }
  listen(onEvent, () => {
    lost = true;
    banner("The studio does not answer. Start `tpn studio` again; everything that was confirmed is kept.");
  });
  // a folder can vanish (a disk that is pulled out) without any event
  setInterval(() => { if (!document.hidden && !lost) state(); }, 5000);
}

const later = soon(refresh);
for (const kind of ["state", "arrays", "next", "groups"]) on(kind, later);
begin();
window.studio = store; // for the tests
