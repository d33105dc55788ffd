// A line written with a pen: it is written again point by point, with the letter that the window is at.
//
// data: { points (N, 3): x, y, 1 if the pen is lifted after it; begins: how many points at the start were primed; box:
//         [left, top, width, height]; characters: [text]; weights (U, N) | null; density (height, width) | null, over
//         the box }

import { drawing, element } from "../dom.js";
import { shades, within } from "../pixels.js";
import { player } from "../player.js";
import { register } from "../registry.js";
import { labelled } from "../labelled.js";
import { direction, visible } from "../text.js";
import { onTheme, ramp } from "../theme.js";

const PACE = [25, 750]; // the shortest and the longest time for a point, in milliseconds
const LEAST = 4000; // for a whole line, so that a few points are not over at once

register("strokes", (data, root, { signal, announce, keyboard }) => {
  const { points, begins, box, characters, weights, density } = data;
  const count = points.shape[0];
  const [left, top, width, height] = box;
  const letters = Array.from({ length: count }, (_, t) => letter(t));
  let time = null;

  const clock = player({
    noun: "point",
    pace: Math.min(Math.max(LEAST / Math.max(count, 1), PACE[0]), PACE[1]),
    signal,
    keyboard,
    change: (value) => { time = value; paint(); },
    stepped: () => announce(describe()),
  });
  const chips = characters.map((name, u) => {
    const first = letters.indexOf(u);
    const label = name.trim() ? visible(name) : "␣";
    return element("button", { type: "button", class: "asked letter", disabled: first < 0, "aria-label": `Letter ${u + 1}, ${label}`, on: { click: () => clock.go(first) } }, element("bdi", {}, label));
  });
  const primed = drawing("path", { class: "ink given", d: path(0, begins) });
  const line = drawing("path", { class: "ink" });
  const current = drawing("path", { class: "ink here" });
  const tip = drawing("circle", { class: "tip", r: width / 160 });
  const field = density ? drawing("image", { x: left, y: top, width, height, preserveAspectRatio: "none", class: "smooth" }) : null;
  const label = characters.length ? `The line “${characters.join("")}”` : "The strokes";
  const sheet = drawing("svg", { class: "sheet", viewBox: box.join(" "), role: "img", "aria-label": label });
  sheet.append(...[field, primed, line, current, tip].filter(Boolean));
  const readout = element("p", { class: "readout", role: "status" });
  const stairs = weights ? staircase() : null;
  root.append(
    element("div", { class: "bar" }, clock.node),
    ...(chips.length && weights ? [element("div", { class: "question", role: "group", "aria-label": "Letters", dir: direction(characters) }, ...chips)] : []),
    element("section", { class: "panel", "aria-label": "The line" }, sheet, readout),
    ...(stairs ? [element("section", { class: "panel", "aria-label": "The window" }, element("h3", { class: "small" }, "Window on the text: characters × points"), stairs.box)] : []),
  );
  onTheme(() => { colour(); paint(); }, signal);
  clock.reset(count);
  colour();
  paint();

  // The character that the window is at most; -1 where there is none.
  function letter(t) {
    if (!weights) return -1;
    let best = -1;
    let most = 0;
    for (let u = 0; u < weights.shape[0]; u++) {
      const value = weights.values[u * count + t];
      if (value > most) [best, most] = [u, value];
    }
    return best;
  }

  // The ink of points first..last, and only that of one letter if `only` is its number.
  function path(first, last, only = null) {
    let text = "";
    let down = false;
    for (let t = first; t < last; t++) {
      const [x, y, up] = points.values.subarray(3 * t, 3 * t + 3);
      const before = t > 0 && points.values[3 * t - 1] < 0.5;
      if (only !== null && letters[t] !== only) {
        down = false;
        continue;
      }
      if (!down && before && t > first) text += `M${points.values[3 * t - 3]},${points.values[3 * t - 2]}L${x},${y}`;
      else text += `${down ? "L" : "M"}${x},${y}`;
      if (!down && (up > 0.5 || t === last - 1)) text += `L${x},${y}`; // a dot
      down = up < 0.5;
    }
    return text;
  }

  function staircase() {
    const rows = weights.shape[0];
    const image = drawing("image", { width: count, height: rows, preserveAspectRatio: "none" });
    const cursor = drawing("rect", { class: "cursor", y: 0, width: 1, height: rows });
    const node = drawing("svg", { class: "tape", viewBox: `0 0 ${count} ${rows}`, preserveAspectRatio: "none", role: "img", "aria-label": `Where the window was: ${rows} characters, ${count} points` }, image, cursor);
    const tall = Math.min(Math.max(rows * 14, 60), 420);
    node.style.height = `${tall}px`;
    node.addEventListener("pointermove", (event) => {
      const [x] = within(node, event);
      if (x >= 0 && x < count) clock.go(Math.floor(x));
    }, { signal });
    return { box: labelled(node, characters.slice(0, rows), tall), image, cursor };
  }

  function colour() {
    const { packed } = ramp();
    const at = (value, most) => packed[Math.min(255, Math.round((255 * value) / Math.max(most, 1)))];
    if (stairs) {
      const most = weights.values.reduce((a, b) => Math.max(a, b), 1);
      stairs.image.setAttribute("href", shades(count, weights.shape[0], (i) => at(weights.values[i], most)));
    }
    if (field) {
      const [rows, columns] = density.shape;
      field.setAttribute("href", shades(columns, rows, (i) => at(density.values[i], 255)));
    }
  }

  function describe() {
    if (time === null) return weights ? "Play it, or point at the window below." : "Play it to see it being drawn.";
    const name = letters[time] < 0 ? "" : `, at “${visible(characters[letters[time]])}”`;
    return `Point ${time + 1} of ${count}${name}${time < begins ? ", given" : ""}`;
  }

  function paint() {
    const last = time === null ? count : time + 1;
    primed.setAttribute("d", path(0, Math.min(begins, last)));
    line.setAttribute("d", path(begins, last));
    const now = time === null ? -1 : letters[time];
    current.setAttribute("d", now < 0 ? "" : path(begins, last, now));
    tip.toggleAttribute("hidden", time === null);
    tip.style.display = time === null ? "none" : "";
    if (time !== null) {
      tip.setAttribute("cx", points.values[3 * time]);
      tip.setAttribute("cy", points.values[3 * time + 1]);
    }
    chips.forEach((chip, u) => chip.setAttribute("aria-pressed", u === now));
    if (stairs) {
      stairs.cursor.style.display = time === null ? "none" : "";
      stairs.cursor.setAttribute("x", time ?? 0);
    }
    readout.textContent = describe();
  }
});
