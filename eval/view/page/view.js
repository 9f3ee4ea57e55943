// The page of `rearrange view`: shows each moment as it comes, and says what is pressed and dragged.
"use strict";

const at = id => document.getElementById(id);
const canvas = at("view"), pen = canvas.getContext("2d");
const held = new Set();
let state = {}, scene = -1, path = [], floor = null, terms = [];
const RESEND_MS = 300;  // held keys count as released after a second of silence
const MOST_PATH = 2000;

// --- saying ------------------------------------------------------------------------------------

let waiting = {};  // what was dragged since the last message, which is underway
let isSaying = false;

function say(more) {
  for (const [name, value] of Object.entries(more || {})) {
    if (name === "orbit" || name === "hand")
      waiting[name] = (waiting[name] || value.map(() => 0)).map((v, i) => v + value[i]);
    else if (name === "zoom") waiting.zoom = (waiting.zoom || 0) + value;
    else if (name === "pressed") waiting.pressed = [...(waiting.pressed || []), ...value];
    else waiting[name] = value;
  }
  if (!isSaying) send();
}

async function send() {
  isSaying = true;
  do {
    const message = {held: [...held], ...waiting};
    waiting = {};
    try { await fetch("/said", {method: "POST", body: JSON.stringify(message)}); } catch { break; }
  } while (Object.keys(waiting).length);
  isSaying = false;
}

const ask = (what, value) => say(value === undefined ? {ask: what} : {ask: what, value});
const nameOf = key => key.length === 1 ? key.toLowerCase() : key;
const isTyping = event => ["INPUT", "SELECT"].includes(event.target.tagName)
  && !(event.target.type === "checkbox");

addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  if (event.key === "Tab" || event.key.startsWith("F") && event.key.length > 1) return;
  event.preventDefault();
  if (event.repeat) return;
  held.add(nameOf(event.key));
  say({pressed: [nameOf(event.key)]});
});
addEventListener("keyup", event => { if (held.delete(nameOf(event.key))) say(); });
addEventListener("blur", () => { held.clear(); say(); });
setInterval(() => { if (held.size) say(); }, RESEND_MS);

// --- the mouse ---------------------------------------------------------------------------------

let dragged = null;
canvas.addEventListener("contextmenu", event => event.preventDefault());
canvas.addEventListener("pointerdown", event => {
  dragged = event.shiftKey || event.button === 2 ? "hand" : "orbit";
  canvas.setPointerCapture(event.pointerId);
  canvas.classList.toggle("hand", dragged === "hand");
  canvas.focus();
});
canvas.addEventListener("pointermove", event => {
  if (!dragged) return;
  const scale = canvas.width / canvas.clientWidth;
  const x = event.movementX * scale, y = event.movementY * scale;
  say(dragged === "hand" ? {hand: [x, -y, 0]} : {orbit: [x, y]});
});
for (const end of ["pointerup", "pointercancel"])
  canvas.addEventListener(end, () => { dragged = null; canvas.classList.remove("hand"); });
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const turn = event.deltaY || event.deltaX;  // shift makes some browsers scroll sideways
  if (event.shiftKey) say({hand: [0, 0, -Math.sign(turn)]});
  else say({zoom: Math.sign(turn) * 0.1});
}, {passive: false});

// --- showing -----------------------------------------------------------------------------------

async function watch() {
  for (let number = 0; ;) {
    try {
      const body = await (await fetch(`/next?after=${number}`)).arrayBuffer();
      if (body.byteLength < 4) continue;
      const length = new DataView(body).getUint32(0, true);
      const newest = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, length)));
      number = newest.number;
      const picture = body.byteLength > 4 + length
        ? await createImageBitmap(new Blob([new Uint8Array(body, 4 + length)])) : null;
      if (picture) { pen.drawImage(picture, 0, 0, canvas.width, canvas.height); picture.close(); }
      state = newest;  // with its picture, in one go: what a reader of the page sees belongs together
      show();
    } catch (error) {
      at("instruction").textContent = "The program has ended or cannot be reached.";
      await new Promise(done => setTimeout(done, 1000));
    }
  }
}

function text(id, value) { if (at(id).textContent !== value) at(id).textContent = value; }

function choose(id, value, names) {
  const list = at(id);
  if (names && list.dataset.names !== names.join())
    list.replaceChildren(...names.map(name => new Option(name)));
  if (names) list.dataset.names = names.join();
  if (document.activeElement !== list && list.value !== String(value)) list.value = value;
}

function show() {
  if (state.scene !== scene) {
    scene = state.scene;
    path = [];
    loadMap();
    [...at("evaluated").children].forEach(row =>
      row.classList.toggle("now", row.dataset.index === String(state.index)));
  }
  const isYou = state.driver === "you";
  text("instruction", state.instruction || "rearrange");
  text("message", state.message || "");
  at("message").hidden = !state.message;
  const [words, kind] = state.loading ? [state.loading, ""]
    : state.result ? [state.result === "success" ? "Done!" : sentence(state.result),
                      state.result === "success" ? "good" : "bad"]
    : !state.is_started ? ["Press a key that moves the robot to begin", ""]
    : state.is_paused ? ["Paused", ""] : ["", ""];
  text("big", words);
  at("big").className = kind;
  at("big").hidden = !words;
  text("hint", [`${(state.clock || 0).toFixed(1)} s`, away(), state.status,
                `reward ${(state.reward || 0).toFixed(2)}`].filter(Boolean).join("  ·  "));
  text("pause", state.is_paused ? "go on" : "pause");
  choose("task", state.task);
  choose("split", state.split);
  choose("speed", state.speed);
  choose("driver", state.driver, state.drivers);
  if (document.activeElement !== at("episode")) at("episode").value = state.index;
  at("limit").checked = state.limit;
  text("status", isYou ? "" : state.status || "");
  const lines = state.plan && state.plan.length
    ? state.plan.map(line => [line.slice(2), {"+": "done", ">": "running"}[line[0]] || ""])
    : (state.parts || []).map(([line, isDone]) => [line, isDone ? "done" : ""]);
  at("parts").replaceChildren(...lines.map(([line, mark]) => {
    const item = document.createElement("li");
    item.textContent = line;
    item.className = mark;
    return item;
  }));
  drawMap();
  if (state.sensors) drawSensors(state.sensors);
  if (state.history) {
    remember(state.history);
    drawPlots(terms);
  }
}

const sentence = words => words[0].toUpperCase() + words.slice(1);

// Where the hand has to go, in words.
function away() {
  if (!state.to_go) return "";
  const [x, y, z] = state.to_go, far = value => `${Math.abs(value).toFixed(2)} m`;
  return `hand to go: ${far(x)} ${x < 0 ? "back" : "ahead"}, ${far(y)} ${y < 0 ? "right" : "left"}, `
    + `${far(z)} ${z < 0 ? "down" : "up"}`;
}

// --- the map -----------------------------------------------------------------------------------

function loadMap() {
  if (!state.home) return;
  const picture = new Image();
  picture.onload = () => { floor = picture; drawMap(); };
  picture.src = `/map.png?${state.scene}`;
}

function drawMap() {
  if (!floor || !state.home) return;
  const plan = at("map"), brush = plan.getContext("2d");
  const height = Math.round(plan.width * floor.height / floor.width);
  if (plan.height !== height) plan.height = height;
  const [left, , right, top] = state.home.bounds, scale = plan.width / (right - left);
  const spot = ([x, y]) => [(x - left) * scale, (top - y) * scale];
  brush.drawImage(floor, 0, 0, plan.width, plan.height);
  const [x, y, yaw] = state.home.robot, here = spot([x, y]);
  const last = path[path.length - 1];
  if (!last || Math.hypot(last[0] - here[0], last[1] - here[1]) > 1) path.push(here);
  if (path.length > MOST_PATH) path.splice(0, MOST_PATH / 2);
  brush.strokeStyle = "#f08c28";
  brush.lineWidth = 2;
  brush.beginPath();
  path.forEach(point => brush.lineTo(...point));
  brush.stroke();
  const dot = (point, radius, fill, ring) => {
    brush.beginPath();
    brush.arc(...point, radius, 0, 2 * Math.PI);
    brush.lineWidth = 2;
    if (fill) { brush.fillStyle = fill; brush.fill(); }
    brush.strokeStyle = ring;
    brush.stroke();
  };
  state.home.goals.forEach(goal => dot(spot(goal), 6, null, "#24a550"));
  state.home.things.forEach((thing, i) =>
    dot(spot(thing), i === state.home.focus ? 5 : 3, "#286eeb", "#fff"));
  dot(here, 0.3 * scale, "#e23c30", "#fff");
  brush.beginPath();
  for (const [r, a] of [[0.42, 0], [0.26, 0.7], [0.26, -0.7]])
    brush.lineTo(here[0] + r * scale * Math.cos(yaw + a), here[1] - r * scale * Math.sin(yaw + a));
  brush.fillStyle = "#fff";
  brush.fill();
}

// --- setting up --------------------------------------------------------------------------------

function table(title, rows) {
  const whole = document.createElement("table");
  for (const [keys, meaning] of rows) {
    const row = whole.insertRow(), shown = document.createElement("kbd");
    shown.textContent = keys;
    row.insertCell().append(shown);
    row.insertCell().textContent = meaning;
  }
  whole.createCaption().textContent = title;
  return whole;
}

async function start() {
  const setup = await (await fetch("/setup")).json();
  at("task").replaceChildren(...Object.keys(setup.tasks).map(name => new Option(name)));
  at("split").replaceChildren(...setup.splits.map(name => new Option(name)));
  at("speed").replaceChildren(...setup.speeds.map(value => new Option(`${value}x`, value)));
  at("help").append(table("drive", setup.keys.driving), table("episode", setup.keys.commands),
                    table("mouse", setup.keys.mouse));
  terms = setup.terms;
  at("evaluated").hidden = !setup.evaluated.length;
  at("evaluated").append(...setup.evaluated.map(([index, result, progress, isGood]) => {
    const row = document.createElement("li");
    row.textContent = `${index}: ${result}` + (progress ? ` (${progress})` : "");
    row.className = isGood ? "good" : "";
    row.dataset.index = index;
    row.addEventListener("click", () => ask("episode", index));
    return row;
  }));
  for (const id of ["pause", "step", "again", "next", "save"])
    at(id).addEventListener("click", () => { ask(id); at(id).blur(); });
  for (const [id, value] of [["task", e => e.value], ["split", e => e.value],
                             ["speed", e => Number(e.value)], ["limit", e => e.checked],
                             ["episode", e => Math.max(0, Math.trunc(Number(e.value)))]])
    at(id).addEventListener("change", () => { ask(id, value(at(id))); at(id).blur(); });
  at("driver").addEventListener("change", () => { ask("drive", at("driver").value); at("driver").blur(); });
  watch();
}

start();
