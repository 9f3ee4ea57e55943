// The panels of `rearrange view` beside the picture: what the policy sees, forces, rewards.
"use strict";

const COLOURS = ["#a6aab0", "#f06860", "#d070e0", "#ff9c40", "#5ccc7c", "#6aa8ff"];
const SHOWN_STEPS = 450;  // 15 s
const rows = new Map();  // step -> [step, force, terms ...]

function remember(history) {
  for (const row of history) rows.set(row[0], row);
  const newest = history.length ? history[history.length - 1][0] : 0;
  for (const step of rows.keys()) {
    if (step > newest - SHOWN_STEPS && step <= newest) break;
    rows.delete(step);
  }
}

function drawPlots(terms) {
  const all = [...rows.values()];
  drawPlot(document.getElementById("force"), all, [["contact force, N", "#ff9c40", 1]]);
  drawPlot(document.getElementById("rewards"), all,
           terms.map((name, i) => [name, COLOURS[i % COLOURS.length], i + 2]));
}

function drawPlot(canvas, all, lines) {
  const pen = canvas.getContext("2d"), {width, height} = canvas, foot = 4, head = 6;
  pen.clearRect(0, 0, width, height);
  const values = all.flatMap(row => lines.map(([, , at]) => row[at]));
  const high = Math.max(0.01, ...values), low = Math.min(0, ...values);
  const last = all.length ? all[all.length - 1][0] : 0;
  const x = step => width - (last - step) * width / SHOWN_STEPS;
  const y = value => head + (high - value) * (height - head - foot) / (high - low);
  pen.strokeStyle = "#3a414a";
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, y(0));
  pen.lineTo(width, y(0));
  pen.stroke();
  for (const [, colour, at] of lines) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const row of all) pen.lineTo(x(row[0]), y(row[at]));
    pen.stroke();
  }
  pen.fillStyle = "#a6aab0";
  pen.font = "11px system-ui, sans-serif";
  pen.fillText(high.toPrecision(2), 2, head + 8);
  if (low < 0) pen.fillText(low.toPrecision(2), 2, height - 2);
  legend(canvas.nextElementSibling, lines.map(([name, colour, at]) =>
    [name, colour, all.length ? all[all.length - 1][at] : 0]));
}

// Names, colours and the newest values; made once, then only the values change.
function legend(place, entries) {
  if (place.children.length !== entries.length)
    place.replaceChildren(...entries.map(([name, colour]) => {
      const entry = document.createElement("span"), sign = document.createElement("i");
      sign.style.background = colour;
      entry.append(sign, name + " ", document.createElement("b"));
      return entry;
    }));
  entries.forEach(([, , value], i) => {
    place.children[i].lastChild.textContent = value ? Number(value.toPrecision(3)) : "0";
  });
}

function drawSensors(sensors) {
  const table = document.getElementById("vectors"), names = Object.keys(sensors.vectors);
  if (table.dataset.names !== names.join()) {
    table.dataset.names = names.join();
    table.replaceChildren(...names.map(name => {
      const row = document.createElement("tr");
      row.append(document.createElement("th"), document.createElement("td"));
      row.firstChild.textContent = name;
      return row;
    }));
  }
  names.forEach((name, i) => {
    table.children[i].lastChild.textContent =
      sensors.vectors[name].map(value => value.toFixed(2)).join("  ");
  });
  const place = document.getElementById("pictures"), kinds = Object.keys(sensors.pictures);
  if (place.dataset.names !== kinds.join()) {
    place.dataset.names = kinds.join();
    place.replaceChildren(...kinds.map(name => {
      const figure = document.createElement("figure"), caption = document.createElement("figcaption");
      caption.textContent = name;
      figure.append(document.createElement("canvas"), caption);
      return figure;
    }));
  }
  kinds.forEach((name, i) => drawGrey(place.children[i].firstChild, sensors.pictures[name]));
}

function drawGrey(canvas, {width, height, grey}) {
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    canvas.className = height === 1 ? "strip" : "";
  }
  const pen = canvas.getContext("2d"), picture = pen.createImageData(width, height);
  const bytes = atob(grey);
  for (let i = 0; i < bytes.length; i++) {
    const value = bytes.charCodeAt(i);
    picture.data.set([value, value, value, 255], 4 * i);
  }
  pen.putImageData(picture, 0, 0);
}
