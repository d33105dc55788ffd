// Weights between words: where each target word looked, and what looked at each source word.
//
// data: { columns: [token], layers: [name] | null, readings: [{ rows: [token], text, score, weights }] }, where weights
// are (T, S), (H, T, S) or (L, H, T, S); readings are hypotheses, the best first, or what `several` calls them. `names`
// are those of both sides, and what is said between them; the data may have names of their own.

import { bars } from "./bars.js";
import { choice, element } from "./dom.js";
import { matrix } from "./data.js";
import { heatmap } from "./heatmap.js";
import { player } from "./player.js";
import { percent, visible } from "./text.js";
import { thumbnails } from "./thumbnails.js";
import { words } from "./words.js";

const WIDE = 26; // columns for which the heat map gets the whole width

const NAMES = {
  source: "Source",
  target: "Target",
  looked: "looked at",
  seen: "was looked at by",
  hint: "Words below show where they looked, words above what looked at them.",
};

export function aligned(data, root, { signal, announce, keyboard, names: given = {}, pinned = null }) {
  const names = { ...NAMES, ...given, ...data.names };
  const { columns, readings } = data;
  const shape = readings[0].weights.shape;
  const heads = shape.length > 2 ? shape.at(-3) : 1;
  const layers = shape.length > 3 ? shape.at(-4) : 1;
  const state = { reading: 0, layer: layers > 1 ? layers - 1 : null, head: null, full: false, time: null, pinned: null, pointed: null };
  let weights = null; // the matrix that is shown

  const point = (place) => {
    state.pointed = place && place.index !== undefined ? { ...place, pointer: !place.keyboard } : null;
    paint();
    if (place?.keyboard) announce(describe());
  };
  const pin = (place) => {
    const same = state.pinned && ["side", "index", "other"].every((key) => state.pinned[key] === place[key]);
    state.pinned = same ? null : { ...place, pointer: true };
    paint();
    announce(same ? "released" : describe());
  };
  const rows = words({ columns, names, point, pin, signal });
  const map = heatmap({ columns, names, point, pin, signal, rescale: (full) => { state.full = full; select(); } });
  const time = player({
    noun: "word",
    signal,
    keyboard,
    change: (value) => {
      Object.assign(state, { time: value, pinned: null });
      if (value === null) leave();
      paint();
    },
    stepped: () => announce(describe()),
  });
  const focusPanel = element("div", { class: "looks steady" });

  const layerNames = data.layers ?? Array.from({ length: layers }, (_, i) => `${i + 1}`);
  const headNames = Array.from({ length: heads }, (_, i) => `${i + 1}`);
  const switches = (key, label, options) =>
    options.length > 1 &&
    choice(label, ["mean", ...options], state[key] === null ? 0 : state[key] + 1, (index) => {
      state[key] = index ? index - 1 : null;
      select();
    });
  const controls = { layer: switches("layer", "Layer", layerNames), head: switches("head", "Head", headNames) };
  const bar = element("div", { class: "bar" }, time.node, controls.layer, controls.head);
  const thumbs =
    layers * heads > 1 &&
    thumbnails({
      layerNames,
      signal,
      choose: (layer, head) => {
        const all = state.head === head && (layers === 1 || state.layer === layer);
        Object.assign(state, { layer: layers > 1 ? layer : null, head: heads > 1 && !all ? head : null });
        for (const [key, control] of Object.entries(controls)) {
          if (control) control.lastChild.selectedIndex = state[key] === null ? 0 : state[key] + 1;
        }
        select();
      },
    });

  const hypotheses =
    readings.length > 1 &&
    element(
      "fieldset",
      { class: "panel beam" },
      element("legend", {}, `${readings.length} ${data.several ?? "hypotheses"}`),
      ...readings.map((reading, index) => {
        const input = element("input", {
          type: "radio",
          name: "hypothesis",
          value: index,
          checked: index === 0,
          on: { change: () => { state.reading = index; begin(); } },
        });
        const score = typeof reading.score === "number" && element("span", { class: "score" }, reading.score.toFixed(2).replace("-", "−"));
        return element("label", {}, input, element("bdi", {}, visible(reading.text)), score);
      }),
    );

  const parts = [
    bar,
    thumbs && element("section", { class: "panel", "aria-label": "All heads" }, thumbs.node),
    element("section", { class: "panel", "aria-label": "Words and where they look" }, rows.node),
    element(
      "div",
      { class: columns.length > WIDE ? "split wide" : "split" },
      element("section", { class: "panel", "aria-label": "Heat map of the weights" }, map.node),
      element("div", { class: "aside" }, element("section", { class: "panel", "aria-label": "The word in focus" }, focusPanel), hypotheses),
    ),
  ];
  root.append(...parts.filter(Boolean));
  begin();
  if (pinned !== null) pin({ side: "target", index: pinned });

  // Show another hypothesis from its beginning.
  function begin() {
    const tokens = readings[state.reading].rows;
    Object.assign(state, { time: null, pinned: null, pointed: null });
    rows.setTarget(tokens);
    map.setRows(tokens);
    time.reset(tokens.length);
    select();
  }

  function select() {
    weights = matrix(readings[state.reading].weights, state.layer, state.head, state.full);
    if (thumbs) thumbs.paint(readings[state.reading].weights, state.layer, state.head, state.full);
    paint();
  }

  function active() {
    const written = state.time === null ? null : { side: "target", index: state.time };
    return state.pointed ?? state.pinned ?? written;
  }

  function paint() {
    const place = active();
    rows.paint(weights, place, state.time);
    map.paint(weights, place, state.time);
    list(place);
  }

  // Everything that the active word looked at, or that looked at it, the strongest first.
  function ranked({ side, index }) {
    const target = readings[state.reading].rows;
    const others = side === "target" ? columns : target;
    return others
      .map((token, other) => ({ token, other, weight: side === "target" ? weights.at(index, other) : weights.at(other, index) }))
      .filter(({ other }) => side === "target" || state.time === null || other <= state.time)
      .sort((a, b) => b.weight - a.weight);
  }

  function describe() {
    const place = active();
    if (!place) return "";
    const word = visible((place.side === "target" ? readings[state.reading].rows : columns)[place.index]);
    const verb = place.side === "target" ? names.looked : names.seen;
    const ranking = ranked(place);
    const mentioned = place.other === undefined ? ranking.slice(0, 3) : ranking.filter(({ other }) => other === place.other);
    return `${word} ${verb} ${mentioned.map(({ token, weight }) => `${visible(token)} ${percent(weight)}`).join(", ")}`;
  }

  function list(place) {
    if (!place) {
      focusPanel.replaceChildren(
        element("h3", {}, "Point at a word"),
        element("p", {}, `${names.hint} A click keeps the picture.`),
        element(
          "dl",
          { class: "keys" },
          ...[["← →", "step through time"], ["space", "play, pause"], ["↑ ↓", "follow the strongest line"], ["esc", "everything again"]]
            .flatMap(([key, text]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, text)]),
        ),
      );
      return;
    }
    const token = (place.side === "target" ? readings[state.reading].rows : columns)[place.index];
    const ranking = ranked(place);
    const sum = ranking.reduce((total, { weight }) => total + weight, 0);
    const heading = element("h3", { class: place.side }, element("bdi", {}, visible(token)));
    heading.append(place.side === "target" ? ` ${names.looked}` : ` ${names.seen}`);
    const strong = ranking.filter(({ weight, other }) => weight >= 0.005 * weights.top || other === place.other).slice(0, 8);
    if (place.other !== undefined && !strong.some(({ other }) => other === place.other)) {
      strong.push(ranking.find(({ other }) => other === place.other));
    }
    const shares = strong.map(({ token: name, other, weight }) => ({ name, weight, marked: other === place.other }));
    focusPanel.replaceChildren(
      heading,
      sum > 0 ? bars(shares, weights.top, place.side) : element("p", {}, "nothing: all its weights are 0"),
      place.side === "target" && sum > 0 && element("p", { class: "note" }, spread(ranking, sum)) || "",
    );
  }

  // exp(entropy): the effective number of words that a query attends to.
  function spread(ranking, sum) {
    const entropy = ranking.reduce((h, { weight }) => (weight > 0 ? h - (weight / sum) * Math.log(weight / sum) : h), 0);
    const count = Math.exp(entropy);
    return `As if spread evenly over ${count.toFixed(1)} of ${ranking.length} words.`;
  }

  // Give up the word in focus.
  function leave() {
    state.pointed = null;
    if (root.contains(document.activeElement) && document.activeElement.matches("[role=option]")) document.activeElement.blur();
  }
}
