// Dialogs: keys, export, import, a class.

import { accept, colourClass, mergeClass, removeClass, renameClass } from "/page/actions.js";
import { exportLabels, importList } from "/page/api.js";
import { colourOf } from "/page/colours.js";
import { show } from "/page/grid.js";
import { SKIP, classOf, classes, isGiven, loadArrays, loadState, shown, store } from "/page/store.js";
import { toast } from "/page/top.js";

const make = (kind, className, text) => {
  const element = document.createElement(kind);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

function open(title, ...content) {
  const dialog = document.getElementById("dialog");
  const head = make("div", "head"), close = make("button", "icon", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", () => dialog.close());
  head.append(make("h2", "", title), close);
  dialog.replaceChildren(head, ...content);
  if (!dialog.open) dialog.showModal();
  dialog.onclick = (event) => { if (event.target === dialog) dialog.close(); };
  dialog.onclose = () => document.getElementById("scroller").focus({ preventScroll: true });
  return dialog;
}

const KEYS = [
  ["1 … 9", "give the class with this number"], ["letters", "give the class that begins with these letters, or a new one; Enter confirms"],
  ["Enter", "accept the guess of each selected picture"], ["0", "none of these classes"], [".", "skip: do not suggest it again"],
  ["Delete", "remove the label"], ["Ctrl Z · Ctrl Shift Z", "undo · redo, without limit"],
  ["← → ↑ ↓", "move; with Shift: select"], ["Home End Page ↑ ↓", "move far"], ["Ctrl A", "select everything in the view"], ["Esc", "select nothing; close"],
  ["Space", "enlarge"], ["[ ]", "previous · next view or class"], ["/", "show only file names that contain a text"], ["#", "map"], ["Ctrl E", "export"], ["?", "these keys"],
  ["click", "select; with Ctrl: add to the selection; with Shift: select up to here; drag: select a rectangle"],
];

export function helpDialog() {
  const list = make("dl", "keys");
  for (const [keys, text] of KEYS) {
    const term = make("dt");
    keys.split(" ").forEach((key) => term.append(make("kbd", "", key), " "));
    list.append(term, make("dd", "", text));
  }
  open("Keys", list);
}

export function exportDialog() {
  const form = make("form", "form"), format = make("select"), path = make("input"), least = make("input"), force = make("input");
  const { formats, folder } = store.state;
  const endings = { csv: ".csv", coco: "-coco.json", "label-studio": "-label-studio.json", folders: "-sorted", links: "-linked", imagefolder: "-imagefolder", fiftyone: "-fiftyone" };
  for (const [name, { title }] of Object.entries(formats)) { const option = make("option", "", title); option.value = name; format.append(option); }
  path.required = true; path.dir = "auto"; path.spellcheck = false;
  least.type = "number"; least.min = 0; least.max = 100; least.value = 0;
  force.type = "checkbox";
  const suggest = () => { path.value = folder + (endings[format.value] || ""); force.parentNode.hidden = formats[format.value].folder; };
  const field = (text, input) => { const label = make("label"); label.append(make("span", "", text), input); return label; };
  const message = make("p", "message"), send = make("button", "primary", "Export");
  form.append(field("Format", format), field("Where", path), field("Leave out guesses below (%)", least), field("Replace the file if it exists", force), message, send);
  format.addEventListener("change", suggest);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    message.textContent = "Writing…";
    message.className = "message";
    try {
      const done = await exportLabels({ format: format.value, path: path.value, min_confidence: Number(least.value) / 100, force: force.checked });
      message.textContent = `${done.labels.toLocaleString("en")} labelled pictures written to ${done.path}`;
      message.classList.add("good");
    } catch (error) { message.textContent = error.message; message.classList.add("bad"); }
    send.disabled = false;
  });
  open("Export labels", form);
  suggest();
  format.focus();
}

export function importDialog() {
  const form = make("form", "form"), file = make("input"), message = make("p", "message");
  file.type = "file";
  file.accept = ".csv,.json,.tsv,.txt";
  file.setAttribute("aria-label", "A list of labels");
  form.append(make("p", "hint", "A list with the columns path and label (csv), COCO-style JSON, or JSON of Label Studio. Rows with a confidence below 1 are guesses, and are left out."), file, message);
  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    try {
      const done = await importList(file.files[0].name, await file.files[0].text());
      message.textContent = [`${done.taken.toLocaleString("en")} labels imported. Undo removes them again.`, ...done.notes].join(" ");
      message.className = "message good";
      await Promise.all([loadState(), loadArrays()]);
    } catch (error) { message.textContent = error.message; message.className = "message bad"; }
  });
  open("Import labels", form);
}

export function classMenu(number) {
  const one = classOf(number);
  if (!one) return;
  const form = make("form", "form"), name = make("input"), into = make("select"), colour = make("input");
  name.value = one.name; name.maxLength = 200; name.dir = "auto";
  colour.type = "color"; colour.value = colourOf(number);
  into.append(Object.assign(make("option", "", "—"), { value: "" }));
  classes().filter((other) => other !== one).forEach((other) => into.append(Object.assign(make("option", "", other.name), { value: other.name })));
  const field = (text, input) => { const label = make("label"); label.append(make("span", "", text), input); return label; };
  const sure = [];
  for (let i = 0; i < store.n; i++) if (!isGiven(i) && store.mark[i] !== SKIP && store.conf[i] >= 9000 && shown(i) === number) sure.push(i);
  const acceptAll = make("button", "", `Accept ${sure.length.toLocaleString("en")} above 90 %`);
  acceptAll.type = "button"; acceptAll.disabled = !sure.length;
  const remove = make("button", "danger", "Remove class"), save = make("button", "primary", "Save");
  remove.type = "button";
  const row = make("div", "row");
  row.append(remove, acceptAll, save);
  form.append(field("Name", name), field("Colour", colour), field("Merge into", into), row);
  const dialog = open("Class", form);
  acceptAll.addEventListener("click", () => { accept(sure); dialog.close(); });
  remove.addEventListener("click", async () => { if (await removeClass(one.name)) { toast(`Removed ${one.name}; its labels are gone until you undo.`); leave(number); } dialog.close(); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    dialog.close();
    if (colour.value !== colourOf(number)) await colourClass(one.name, colour.value);
    if (into.value) { if (await mergeClass(one.name, into.value)) leave(number); }
    else if (name.value.trim() !== one.name) await renameClass(one.name, name.value.trim());
  });
  name.select();
}

function leave(number) { if (store.view.kind === "class" && store.view.number === number) show({ kind: "next" }); }
