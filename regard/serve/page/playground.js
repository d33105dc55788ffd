// Weather stations on a map, or vectors of any width, and the weights that each score gives them. The library itself
// computes them, on the server, while a station moves.

import { drawing, element } from "../viewer/dom.js";
import * as api from "./api.js";
import { complaint } from "./complaint.js";
import { field } from "./fields.js";
import { typed, write } from "./link.js";
import { question } from "./schema.js";

const MOST = { stations: 8, width: 6, values: 3 };
// What the numbers of a vector mean, by name: of a key, and of a value with its unit.
const MEANINGS = {
  weather: { key: ["km east", "km north"], value: [["temperature", "°C"], ["humidity", "%"]] },
  vectors: { key: [], value: [] },
};
const PRESETS = {
  // The query is near none of the axes and no station, so that every score makes something else of it.
  "Stations": {
    what: "weather",
    score: "inverse_distance",
    settings: { gain: 4, scale: 2, width: 0.8 },
    query: [1, 0.8],
    keys: [[2.4, 0.3], [1.1, 1.7], [-0.4, 1.5], [-1.7, 0.7], [-0.8, -1.2], [1.2, -1.1]],
    values: [[33, 38], [28, 52], [24, 61], [18, 77], [21, 70], [30, 45]],
  },
  // Six stations at distance 1/e, e = 6.5, 6.1, 4.5, 3.5, 2.8, 1.9; their directions are ours.
  "The lecture's stations": {
    what: "weather",
    score: "inverse_distance",
    settings: {},
    query: [0, 0],
    keys: [[0.082, 0.13], [0.122, -0.11], [-0.209, -0.076], [-0.098, -0.268], [-0.134, 0.331], [0.511, 0.127]],
    values: [[30, 48], [31, 49], [37, 44], [33, 45], [34, 50], [32, 45]],
  },
  "Vectors": {
    what: "vectors",
    score: "dot",
    settings: {},
    query: [1.5, 0.9],
    keys: [[2.2, 0.3], [1.2, 1.4], [-0.3, 1.8], [-1.6, 0.8], [-0.9, -1.1], [0.8, -1.4]],
    values: [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]],
  },
};
const MAP = { width: 560, height: 440 };
const STEP = 0.03; // of half the map's height, for an arrow key

export async function playground(root, { values, signal }) {
  // What the server calls a setting becomes a field here; which of them are shown depends on the chosen score.
  const schemas = Object.entries((await question({ path: "/api/weigh" })).properties).filter(([, schema]) => schema.setting);
  const settings = Object.fromEntries(schemas.map(([name, schema]) => [name, field(name, schema, { signal, change: () => weigh() })]));
  const script = (await api.lecture()).find(({ name }) => name === "playground")?.script;
  const state = restore(values);
  let score = values.score ?? state.score;
  let seed = /^\d{1,4}$/.test(values.seed ?? "") ? Number(values.seed) : 0;
  let results = [];
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
  const presets = Object.entries(PRESETS).map(([text, preset]) =>
    element("button", { type: "button", class: "plain", on: { click: () => { Object.assign(state, structuredClone(preset)); score = preset.score; set(preset.settings); draw(); } } }, text));
  const answer = element("output", { class: "here" });
  const about = element("p", { class: "note" });
  const controls = element("div", { class: "fields settings" }, ...Object.values(settings).map(({ node }) => node));

  const other = element("button", { type: "button", class: "plain", on: { click: () => { seed = (seed + 1) % 10000; weigh(); } } }, "Other parameters");

  root.append(
    element(
      "header",
      { class: "head" },
      element("h1", {}, "Playground"),
      element("p", { class: "lead" }, "What is the weather at the cross? The cross is the query, the place of each station a key, and what it measured a value: temperature and humidity. Drag them, or move them with the arrow keys. Each score compares query and keys in its own way; the normalizer makes weights of the scores; the answer is the weighted sum of the values."),
      script && element("p", { class: "about" }, "The same as a script: ", element("a", { href: `source/${script}` }, script)),
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
          element("div", { class: "row" }, ...presets, add),
        ),
        element(
          "section",
          { class: "panel", "aria-label": "Numbers" },
          element("h2", {}, "The same as numbers"),
          element("div", { class: "row" }, element("label", { for: "width" }, "Numbers in a vector"), width, element("span", { class: "note" }, "With two there is a map. e is the score, α the weight by the chosen score.")),
          numbers,
        ),
      ),
      element(
        "section",
        { class: "panel", "aria-label": "Weights" },
        element("h2", {}, "Weights by score"),
        controls,
        about,
        scores,
        element("div", { class: "row" }, other, element("span", { class: "note" }, "Scores with * have parameters, which a model would learn. Here they are random.")),
      ),
    ),
  );
  set(Object.keys(values).length ? Object.fromEntries(schemas.map(([name, schema]) => [name, typed(values[name], schema)])) : state.settings);
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

  function set(settingValues) {
    for (const [name, schema] of schemas) {
      const value = settingValues[name];
      const allowed = schema.enum ? schema.enum.includes(value) : value >= schema.minimum && value <= schema.maximum;
      settings[name].set(allowed ? value : schema.default);
    }
  }

  function chosen() {
    return Object.fromEntries(Object.entries(settings).map(([name, { read }]) => [name, read()]).filter(([, value]) => value !== null));
  }

  // The name and the unit of each number of a key and of a value.
  function meanings() {
    const { key, value } = MEANINGS[state.what];
    const plain = (letter, count) => Array.from({ length: count }, (_, i) => `${letter}${i + 1}`);
    const fits = { key: key.length === state.query.length, value: value.length === state.values[0].length };
    return {
      key: fits.key ? key : state.query.length === 2 ? ["x", "y"] : plain("k", state.query.length),
      value: fits.value ? value : plain("v", state.values[0].length).map((name) => [name, ""]),
    };
  }

  // What was measured, or the answer, with its units.
  function measured(numbers, digits) {
    const { value } = meanings();
    const texts = numbers.map((number, i) => `${digits === undefined ? short(number) : number.toFixed(digits).replace("-", "−")}${value[i][1] && ` ${value[i][1]}`}`);
    return texts.join(", ");
  }

  // So that everything is on the map, with room to move.
  function fit() {
    const reach = [0, 1].map((i) => Math.max(1e-3, ...[state.query, ...state.keys].map((vector) => Math.abs(vector[i] ?? 0))));
    unit = Math.min((MAP.width / 2 - 60) / reach[0], (MAP.height / 2 - 84) / reach[1]);
  }

  async function weigh() {
    pending?.abort();
    const mine = (pending = new AbortController());
    try {
      const { query, keys, values: measurements } = state;
      const answer = await api.weigh({ query, keys, values: measurements, seed, ...chosen() }, mine.signal);
      if (mine.signal.aborted || signal.aborted) return;
      results = answer.scores;
      trouble.replaceChildren();
      if (!results.some((result) => result.name === score)) score = results[0].name;
      about.textContent = answer.about;
      numbersOf();
      list();
      plot();
    } catch (error) {
      if (mine.signal.aborted || signal.aborted) return;
      trouble.replaceChildren(complaint(error));
    }
    clearTimeout(saved);
    saved = setTimeout(() => history.replaceState(null, "", write("playground", { what: state.what, query: state.query, keys: state.keys, values: state.values, score, seed, ...chosen() })), 400);
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

  // What the axes mean, where they mean something.
  function compass() {
    const { key } = MEANINGS[state.what];
    if (key.length !== 2) return [];
    const size = 12 * enlarged();
    return [drawing("text", { x: 10, y: MAP.height - 10, class: "compass", "font-size": size, "aria-hidden": "true" }, `→ ${key[0]}, ↑ ${key[1]}`)];
  }

  // Legible on a phone, where the map is small.
  function enlarged() {
    return Math.min(1.7, Math.max(1, 420 / (map.clientWidth || 420)));
  }

  function plot() {
    const weighed = results.find((result) => result.name === score);
    const sum = weighed?.weights.reduce((total, weight) => total + weight, 0);
    answer.textContent = !weighed ? "At the cross: …" : `At the cross: ${measured(weighed.context, 1)}${Math.abs(sum - 1) > 0.005 ? ` (the weights sum to ${sum.toFixed(2)})` : ""}`;
    map.hidden = state.query.length !== 2;
    if (map.hidden) return;
    const weights = weighed?.weights.length === state.keys.length ? weighed.weights : state.keys.map(() => 0);
    const focused = document.activeElement?.closest?.("[data-mark]")?.dataset.mark;
    const [qx, qy] = place(state.query);
    const svg = drawing("svg", { viewBox: `0 0 ${MAP.width} ${MAP.height}`, role: "group", "aria-label": "Map with stations" });
    svg.append(...grid(), ...compass());
    for (const [i, key] of state.keys.entries()) {
      const [x, y] = place(key);
      svg.append(drawing("line", { x1: qx, y1: qy, x2: x, y2: y, class: "ray", "stroke-width": (0.5 + 9 * Math.abs(weights[i])).toFixed(2), "data-hue": i }));
    }
    for (const [i, key] of state.keys.entries()) svg.append(station(i, key, weights[i]));
    svg.append(asker(qx, qy));
    for (const [i, key] of state.keys.entries()) svg.append(label(i, key, weights[i], qy));
    map.replaceChildren(svg);
    if (focused !== undefined) map.querySelector(`[data-mark="${focused}"]`)?.focus({ preventScroll: true });
  }

  function radius(weight) {
    return 5 + 42 * Math.sqrt(Math.min(1, Math.max(0, weight)));
  }

  function station(i, key, weight) {
    const [x, y] = place(key);
    const spoken = `Station ${i + 1} at ${key.map(short).join(", ")}, measured ${measured(state.values[i])}, weight ${share(weight)}`;
    return mark(i, spoken, drawing("circle", { cx: x, cy: y, r: radius(weight).toFixed(1), "data-hue": i, class: "disc" }), drawing("circle", { cx: x, cy: y, r: 3.5, class: "dot" }));
  }

  // On the side of the disc that is turned away from the query.
  function label(i, key, weight, from) {
    const [x, y] = place(key);
    const size = 13.5 * enlarged();
    const room = radius(weight) + 2.7 * size;
    const below = y > from ? y + room < MAP.height : y < room;
    const top = below ? y + radius(weight) + 1.2 * size : y - radius(weight) - 1.5 * size;
    const words = measured(state.values[i]);
    const half = 0.3 * size * words.length + 4; // about half as wide as its letters
    const at = Math.min(MAP.width - half, Math.max(half, x));
    return drawing(
      "text",
      { x: at, y: top, class: "label", "font-size": size, "aria-hidden": "true" },
      drawing("tspan", { x: at }, words),
      drawing("tspan", { x: at, dy: 1.1 * size, class: "share" }, `α = ${share(weight)}`),
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
    const top = results.map((result) => {
      const total = Math.max(1, result.weights.reduce((sum, weight) => sum + Math.abs(weight), 0)); // of a sigmoid it may be more
      const input = element("input", { type: "radio", name: "score", value: result.name, checked: result.name === score });
      input.addEventListener("change", () => { score = result.name; plot(); list(); numbersOf(); weigh(); });
      const bar = result.weights.map((weight, i) => element("span", { "data-hue": i, vars: { "--share": (Math.abs(weight) / total).toFixed(4) } }));
      const spoken = result.weights.map((weight, i) => `station ${i + 1} ${share(weight)}`).join(", ");
      return element(
        "label",
        { class: result.name === score && "chosen", "data-score": result.name },
        input,
        element("span", { class: "name" }, `${result.name.replaceAll("_", " ")}${result.learns ? " *" : ""}`),
        element("span", { class: "equation" }, result.equation),
        element("span", { class: "stack", role: "img", "aria-label": spoken, title: spoken }, ...bar),
        element("output", { class: "context" }, measured(result.context, 1)),
      );
    });
    const focused = document.activeElement?.name === "score";
    const { settings: relevant } = results.find((result) => result.name === score);
    for (const [name, { node }] of Object.entries(settings)) node.hidden = !relevant.includes(name);
    scores.replaceChildren(...top);
    if (focused) scores.querySelector(":checked")?.focus();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The numbers

  function table() {
    const { key: names, value } = meanings();
    const columns = value.map(([name, unit]) => `${name}${unit && ` ${unit}`}`);
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
      head(`${i + 1}`, i),
      key.map((_, k) => cell(key, k, `station ${i + 1}, ${names[k]}`)),
      [...state.values[i].map((_, k) => cell(state.values[i], k, `station ${i + 1}, ${columns[k]}`)), element("td", { class: "made" }), element("td", { class: "made" })],
      state.keys.length > 1 && element("button", { type: "button", class: "plain small", "aria-label": `Remove station ${i + 1}`, on: { click: () => { state.keys.splice(i, 1); state.values.splice(i, 1); draw(); } } }, "×"),
    ));
    const queryRow = row(head("query"), state.query.map((_, k) => cell(state.query, k, `query, ${names[k]}`)), [...columns, "", ""].map(() => element("td", {})), "");
    const heads = ["", ...names, ...columns, "e", "α"].map((text) => element("th", { scope: "col" }, text));
    numbers.replaceChildren(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads, element("td", {}))), element("tbody", {}, queryRow, ...rows))));
  }

  // The score and the weight of each station by the chosen score.
  function numbersOf() {
    const weighed = results.find((result) => result.name === score);
    numbers.querySelectorAll("tbody tr + tr").forEach((row, i) => {
      const [e, weight] = row.querySelectorAll(".made");
      e.textContent = weighed.scores[i] === undefined ? "" : brief(weighed.scores[i]);
      weight.textContent = weighed.weights[i] === undefined ? "" : share(weighed.weights[i]);
    });
  }

  // The numbers of what was moved.
  function fill() {
    const inputs = numbers.querySelectorAll("tbody tr");
    [state.query, ...state.keys].forEach((vector, i) => vector.forEach((x, k) => { inputs[i].querySelectorAll("input")[k].value = x; }));
  }
}

function restore(values) {
  const preset = structuredClone(Object.values(PRESETS)[0]);
  try {
    const linked = Object.fromEntries(["query", "keys", "values"].map((key) => [key, JSON.parse(values[key])]));
    const numbers = (list, most) => Array.isArray(list) && list.length > 0 && list.length <= most && list.every(Number.isFinite);
    const even = (lists, size) => lists.every((list) => numbers(list, size) && list.length === size);
    const fits =
      numbers(linked.query, MOST.width) &&
      [linked.keys, linked.values].every((lists) => Array.isArray(lists) && lists.length > 0 && lists.length <= MOST.stations) &&
      linked.keys.length === linked.values.length &&
      even(linked.keys, linked.query.length) &&
      linked.values[0].length <= MOST.values &&
      even(linked.values, linked.values[0].length);
    if (fits) return { ...preset, ...linked, what: values.what in MEANINGS ? values.what : "vectors", settings: {} };
  } catch {
    // A link without stations, or with something else: those to begin with.
  }
  return preset;
}

// A weight: two digits that count.
function share(weight) {
  return weight.toFixed(Math.abs(weight) < 0.095 ? 3 : 2).replace("-", "−");
}

function brief(value) {
  return (Math.abs(value) >= 1e4 ? value.toExponential(1) : value.toFixed(2)).replace("-", "−");
}

function short(value) {
  return String(Math.round(value * 1000) / 1000).replace("-", "−");
}

function round(value) {
  return Math.round(value * 1000) / 1000;
}
