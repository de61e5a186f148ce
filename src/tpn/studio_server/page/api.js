// Requests to the server. Actions are sent one after the other, so that they arrive in the order of the keys.

let queue = Promise.resolve();

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new Error("The studio does not answer. Is `tpn studio` still running? Nothing that was confirmed is lost.");
  }
  if (!answer.ok) {
    let text = `The server refused the request (${answer.status}).`;
    try { text = (await answer.json()).error || text; } catch { /* not JSON */ }
    throw Object.assign(new Error(text), { status: answer.status });
  }
  return answer;
}

export const getJson = async (path) => (await ask(path)).json();
export const getText = async (path) => (await ask(path)).text();
export const getBuffer = async (path) => (await ask(path)).arrayBuffer();

function post(path, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return ask(path, options).then((answer) => answer.json());
}

export function act(action) {
  const named = { id: crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2) + Date.now(), ...action };
  const sent = queue.then(() => post("/api/act", named));
  queue = sent.catch(() => {});
  return sent;
}

export const exportLabels = (body) => post("/api/export", body);
export const importList = (name, text) => post("/api/import", { name, text });

export function listen(onEvent, onLost) {
  const source = new EventSource("/api/events");
  source.onmessage = (message) => onEvent(JSON.parse(message.data));
  source.onerror = () => onLost();
  return source;
}
