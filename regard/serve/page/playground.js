// Weather stations on a map, or vectors of any width, and the weights that each score gives them. The library itself
// computes them, on the server, while a station moves.

import { drawing, element } from "../viewer/dom.js";
import * as api from "./api.js";
import { complaint } from "./complaint.js";
import { write } from "./link.js";

const MOST = { stations: 8, width: 6, values: 3 };
// The lecture's six stations at distance 1/e, e = 6.5, 6.1, 4.5, 3.5, 2.8, 1.9; their directions are ours.
const LECTURE = {
  query: [0, 0],
  keys: [[0.082, 0.13], [0.122, -0.11], [-0.209, -0.076], [-0.098, -0.268], [-0.134, 0.331], [0.511, 0.127]],
  values: [[30, 48], [31, 49], [37, 44], [33, 45], [34, 50], [32, 45]],
};
const VECTORS = {
  query: [1.5, 0.9],
  keys: [[2.2, 0.3], [1.2, 1.4], [-0.3, 1.8], [-1.6, 0.8], [-0.9, -1.1], [0.8, -1.4]],
  values: [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]],
};
const MAP = { width: 560, height: 440 };
const STEP = 0.03; // of half the map's height, for an arrow key

export async function playground(root, { values, signal }) {
  const state = restore(values);
  let score = values.score ?? "inverse_distance";
  let seed = /^\d{1,4}$/.test(values.seed ?? "") ? Number(values.seed) : 0;
  let found = [];
  let unit = 1; // pixels
  let pending = null;
  let saved = null;

  const map = element("div", { class: "map" });
  const scores = element("div", { class: "scores", role: "radiogroup", "aria-label": "Score" });
  const numbers = element("div", { class: "numbers" });
  const trouble = element("div", { class: "trouble" });
  const width = element("input", { id: "width", type: "number", min: 1, max: MOST.width, step: 1 });
  width.addEventListener("change", () => {
    const size = Math.min(MOST.width, Math.max(1, Math.round(Number(width.value)) || 2));
    for (const vector of [state.query, ...state.keys]) vector.splice(size, Infinity, ...Array(Math.max(0, size - vector.length)).fill(0));
    draw();
  });
  const add = element("button", { type: "button", class: "plain", on: { click: () => {
    state.keys.push(state.query.map((x, i) => round(x + [0.25, 0.2][i % 2] * (1 - (state.keys.length % 3) * 0.7))));
    state.values.push(state.values[0]?.map(() => 0) ?? [0]);
    draw();
  } } }, "Add a station");
  const preset = (text, numbers, name) =>
    element("button", { type: "button", class: "plain", on: { click: () => { Object.assign(state, structuredClone(numbers)); score = name; draw(); } } }, text);
  const answer = element("output", { class: "here" });

  const other = element("button", { type: "button", class: "plain", on: { click: () => { seed = (seed + 1) % 10000; weigh(); } } }, "Other parameters");

  root.append(
    element(
      "header",
      { class: "head" },
      element("h1", {}, "Playground"),
      element("p", { class: "lead" }, "What is the weather at the cross? Each station's place is a key, what it measured a value, the cross is the query. Drag them, or move them with the arrow keys, and see what each score makes of it."),
    ),
    trouble,
    element(
      "div",
      { class: "ground" },
      element(
        "div",
        {},
        element(
          "section",
          { class: "panel", "aria-label": "Map" },
          map,
          answer,
          element("div", { class: "row" }, add, preset("The lecture's stations", LECTURE, "inverse_distance"), preset("Vectors", VECTORS, "dot")),
        ),
        element(
          "section",
          { class: "panel", "aria-label": "Numbers" },
          element("h2", {}, "The same as numbers"),
          element("div", { class: "row" }, element("label", { for: "width" }, "Numbers in a vector"), width, element("span", { class: "note" }, "With two there is a map.")),
          numbers,
        ),
      ),
      element(
        "section",
        { class: "panel", "aria-label": "Weights" },
        element("h2", {}, "Weights by score"),
        scores,
        element("div", { class: "row" }, other, element("span", { class: "note" }, "Scores with * have parameters, which a model would learn. Here they are random.")),
      ),
    ),
  );
  const resized = new ResizeObserver(plot);
  resized.observe(map);
  signal.addEventListener("abort", () => { pending?.abort(); clearTimeout(saved); resized.disconnect(); });
  draw();
  await weigh();

  // Everything anew, when stations or widths have changed.
  function draw() {
    width.value = state.query.length;
    fit();
    add.disabled = state.keys.length >= MOST.stations;
    table();
    plot();
    weigh();
  }

  // So that everything is on the map, with room to move.
  function fit() {
    const reach = [0, 1].map((i) => Math.max(1e-3, ...[state.query, ...state.keys].map((vector) => Math.abs(vector[i] ?? 0))));
    unit = Math.min((MAP.width / 2 - 40) / reach[0], (MAP.height / 2 - 62) / reach[1]);
  }

  async function weigh() {
    pending?.abort();
    const mine = (pending = new AbortController());
    try {
      const answer = await api.weigh({ ...state, seed }, mine.signal);
      if (mine.signal.aborted || signal.aborted) return;
      found = answer.scores;
      trouble.replaceChildren();
      if (!found.some((each) => each.name === score)) score = found[0].name;
      list();
      plot();
    } catch (error) {
      if (mine.signal.aborted || signal.aborted) return;
      trouble.replaceChildren(complaint(error));
    }
    clearTimeout(saved);
    saved = setTimeout(() => history.replaceState(null, "", write("playground", { ...state, score, seed })), 400);
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The map

  function place([x, y]) {
    return [MAP.width / 2 + unit * x, MAP.height / 2 - unit * y];
  }

  // Lines at round numbers, and the axes.
  function grid() {
    const about = 45 / unit;
    const ten = 10 ** Math.floor(Math.log10(about));
    const every = unit * ten * [1, 2, 5, 10].find((times) => times * ten >= about);
    const lines = [];
    for (let x = (MAP.width / 2) % every; x < MAP.width; x += every) lines.push(`M${x.toFixed(1)} 0V${MAP.height}`);
    for (let y = (MAP.height / 2) % every; y < MAP.height; y += every) lines.push(`M0 ${y.toFixed(1)}H${MAP.width}`);
    const axes = `M${MAP.width / 2} 0V${MAP.height}M0 ${MAP.height / 2}H${MAP.width}`;
    return [drawing("path", { d: lines.join(""), class: "grid" }), drawing("path", { d: axes, class: "grid axes" })];
  }

  function plot() {
    const chosen = found.find((each) => each.name === score);
    answer.textContent = chosen ? `At the cross: ${chosen.context.map((value) => value.toFixed(1).replace("-", "−")).join(", ")}` : "At the cross: …";
    map.hidden = state.query.length !== 2;
    if (map.hidden) return;
    const weights = chosen?.weights.length === state.keys.length ? chosen.weights : state.keys.map(() => 0);
    const held = document.activeElement?.closest?.("[data-mark]")?.dataset.mark;
    const [qx, qy] = place(state.query);
    const svg = drawing("svg", { viewBox: `0 0 ${MAP.width} ${MAP.height}`, role: "group", "aria-label": "Map with stations" });
    svg.append(...grid());
    for (const [i, key] of state.keys.entries()) {
      const [x, y] = place(key);
      svg.append(drawing("line", { x1: qx, y1: qy, x2: x, y2: y, class: "ray", "stroke-width": (0.5 + 9 * Math.abs(weights[i])).toFixed(2), "data-hue": i }));
    }
    for (const [i, key] of state.keys.entries()) svg.append(station(i, key, weights[i]));
    svg.append(asker(qx, qy));
    for (const [i, key] of state.keys.entries()) svg.append(label(i, key, weights[i], qy));
    map.replaceChildren(svg);
    if (held !== undefined) map.querySelector(`[data-mark="${held}"]`)?.focus({ preventScroll: true });
  }

  function radius(weight) {
    return 5 + 42 * Math.sqrt(Math.min(1, Math.max(0, weight)));
  }

  function measured(i) {
    return `(${state.values[i].map(short).join(", ")})`;
  }

  function station(i, key, weight) {
    const [x, y] = place(key);
    const told = `Station ${i + 1} at ${key.map(short).join(", ")}, measured ${measured(i)}, weight ${percent(weight)}`;
    return mark(i, told, drawing("circle", { cx: x, cy: y, r: radius(weight).toFixed(1), "data-hue": i, class: "disc" }), drawing("circle", { cx: x, cy: y, r: 3.5, class: "dot" }));
  }

  // On the side of the disc that is turned away from the query.
  function label(i, key, weight, from) {
    const [x, y] = place(key);
    const below = y > from ? y < MAP.height - 80 : y < 80;
    const size = 13.5 * Math.min(1.7, Math.max(1, 420 / (map.clientWidth || 420))); // legible on a phone, where the map is small
    const top = below ? y + radius(weight) + 1.2 * size : y - radius(weight) - 1.5 * size;
    return drawing(
      "text",
      { x, y: top, class: "label", "font-size": size, "aria-hidden": "true" },
      drawing("tspan", { x }, measured(i)),
      drawing("tspan", { x, dy: 1.1 * size, class: "share" }, percent(weight)),
    );
  }

  function asker(x, y) {
    return mark(
      "query",
      `The query at ${state.query.map(short).join(", ")}`,
      drawing("circle", { cx: x, cy: y, r: 16, class: "halo" }),
      drawing("path", { d: `M${x - 8} ${y - 8} ${x + 8} ${y + 8}M${x + 8} ${y - 8} ${x - 8} ${y + 8}`, class: "cross" }),
    );
  }

  // Something that can be moved.
  function mark(which, label, ...parts) {
    const node = drawing("g", { class: "mark", tabindex: 0, role: "button", "aria-roledescription": "movable mark", "aria-label": label, "data-mark": which }, ...parts);
    node.addEventListener("pointerdown", (event) => grab(event, which));
    node.addEventListener("keydown", (event) => press(event, which));
    return node;
  }

  function vector(which) {
    return which === "query" ? state.query : state.keys[which];
  }

  function grab(event, which) {
    if (event.button !== 0) return;
    event.preventDefault();
    map.querySelector(`[data-mark="${which}"]`).focus({ preventScroll: true });
    const drag = new AbortController();
    const move = (moved) => {
      const box = map.firstChild.getBoundingClientRect();
      const x = ((moved.clientX - box.left) / box.width) * MAP.width;
      const y = ((moved.clientY - box.top) / box.height) * MAP.height;
      put(which, [(x - MAP.width / 2) / unit, (MAP.height / 2 - y) / unit]);
    };
    addEventListener("pointermove", move, { signal: drag.signal });
    for (const type of ["pointerup", "pointercancel"]) addEventListener(type, () => drag.abort(), { signal: drag.signal });
    signal.addEventListener("abort", () => drag.abort());
  }

  function press(event, which) {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by) return;
    event.preventDefault();
    const far = ((event.shiftKey ? 5 : 1) * STEP * MAP.height) / 2 / unit;
    put(which, vector(which).map((x, i) => x + by[i] * far));
  }

  function put(which, to) {
    const limit = [MAP.width, MAP.height].map((side) => (side / 2 - 12) / unit);
    vector(which).splice(0, 2, ...to.map((x, i) => round(Math.min(limit[i], Math.max(-limit[i], x)))));
    fill();
    plot();
    weigh();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The scores

  function list() {
    const top = found.map((each) => {
      const total = each.weights.reduce((sum, weight) => sum + Math.abs(weight), 0) || 1;
      const input = element("input", { type: "radio", name: "score", value: each.name, checked: each.name === score });
      input.addEventListener("change", () => { score = each.name; plot(); list(); weigh(); });
      const bar = each.weights.map((weight, i) => element("span", { "data-hue": i, vars: { "--share": (Math.abs(weight) / total).toFixed(4) } }));
      const told = each.weights.map((weight, i) => `station ${i + 1} ${percent(weight)}`).join(", ");
      return element(
        "label",
        { class: each.name === score && "chosen", "data-score": each.name },
        input,
        element("span", { class: "name" }, `${each.name.replaceAll("_", " ")}${each.learns ? " *" : ""}`),
        element("span", { class: "equation" }, each.equation),
        element("span", { class: "stack", role: "img", "aria-label": told, title: told }, ...bar),
        element("output", { class: "context" }, each.context.map((value) => value.toFixed(1).replace("-", "−")).join(", ")),
      );
    });
    const held = document.activeElement?.name === "score";
    scores.replaceChildren(...top);
    if (held) scores.querySelector(":checked")?.focus();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The numbers

  function table() {
    const names = state.query.length === 2 ? ["x", "y"] : state.query.map((_, i) => `k${i + 1}`);
    const columns = (state.values[0] ?? []).map((_, i) => `v${i + 1}`);
    const cell = (list, index, label) => element("td", {}, element("input", {
      type: "number",
      step: "any",
      "aria-label": label,
      value: list[index],
      on: { input: (event) => { if (Number.isFinite(event.target.valueAsNumber)) { list[index] = event.target.valueAsNumber; fit(); plot(); weigh(); } } },
    }));
    const row = (head, key, value, extra) => element("tr", {}, head, ...key, ...value, element("td", {}, extra));
    const head = (text, hue) => element("th", { scope: "row" }, hue !== undefined && element("span", { class: "spot", "data-hue": hue, "aria-hidden": "true" }), text);
    const rows = state.keys.map((key, i) => row(
      head(`station ${i + 1}`, i),
      key.map((_, k) => cell(key, k, `station ${i + 1}, ${names[k]}`)),
      state.values[i].map((_, k) => cell(state.values[i], k, `station ${i + 1}, ${columns[k]}`)),
      state.keys.length > 1 && element("button", { type: "button", class: "plain small", "aria-label": `Remove station ${i + 1}`, on: { click: () => { state.keys.splice(i, 1); state.values.splice(i, 1); draw(); } } }, "×"),
    ));
    const asked = row(head("query"), state.query.map((_, k) => cell(state.query, k, `query, ${names[k]}`)), columns.map(() => element("td", {})), "");
    const heads = ["", ...names, ...columns].map((text) => element("th", { scope: "col" }, text));
    numbers.replaceChildren(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads, element("td", {}))), element("tbody", {}, asked, ...rows))));
  }

  // The numbers of what was moved.
  function fill() {
    const inputs = numbers.querySelectorAll("tbody tr");
    [state.query, ...state.keys].forEach((vector, i) => vector.forEach((x, k) => { inputs[i].querySelectorAll("input")[k].value = x; }));
  }
}

function restore(values) {
  const found = structuredClone(LECTURE);
  try {
    const given = Object.fromEntries(["query", "keys", "values"].map((key) => [key, JSON.parse(values[key])]));
    const numbers = (list, most) => Array.isArray(list) && list.length > 0 && list.length <= most && list.every(Number.isFinite);
    const even = (lists, size) => lists.every((list) => numbers(list, size) && list.length === size);
    const fits =
      numbers(given.query, MOST.width) &&
      [given.keys, given.values].every((lists) => Array.isArray(lists) && lists.length > 0 && lists.length <= MOST.stations) &&
      given.keys.length === given.values.length &&
      even(given.keys, given.query.length) &&
      given.values[0].length <= MOST.values &&
      even(given.values, given.values[0].length);
    if (fits) return given;
  } catch {
    // A link without stations, or with something else: the lecture's.
  }
  return found;
}

function percent(weight) {
  return `${(100 * weight).toFixed(Math.abs(weight) < 0.1 ? 1 : 0)} %`.replace("-", "−");
}

function short(value) {
  return String(Math.round(value * 1000) / 1000).replace("-", "−");
}

function round(value) {
  return Math.round(value * 1000) / 1000;
}
