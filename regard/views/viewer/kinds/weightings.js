// A machine with a memory at work: what came in and went out, what its heads wrote and read, and where they were; time
// runs to the right.
//
// data: { bits: [{ name, values (T, width) }], vectors: [{ name, values (T, width), float32 }], weightings: [{ name,
//         values (T, rows) }], rows: the number of each row of the memory that is shown }

import { drawing, element } from "../dom.js";
import { shades, within } from "../pixels.js";
import { player } from "../player.js";
import { register } from "../registry.js";
import { percent } from "../text.js";
import { onTheme, ramp, signed } from "../theme.js";

const CELL = { least: 3, most: 16 }; // pixels
const GUTTER = 44; // pixels, for the numbers of rows

register("weightings", (data, root, { signal, announce, keyboard }) => {
  const steps = data.weightings[0].values.shape[0];
  let time = null;
  let pointed = null;
  const clock = player({
    noun: "step",
    signal,
    keyboard,
    change: (value) => { time = value; paint(); },
    stepped: () => announce(describe()),
  });
  const readout = element("p", { class: "readout", role: "status" });
  const groups = [
    data.bits.map((panel) => build({ ...panel, unit: "bit" })),
    data.vectors.map((panel) => build({ ...panel, unit: "number" })),
    data.weightings.map((panel) => build({ ...panel, unit: "row", places: true })),
  ];
  const panels = groups.flat();
  const stack = element("section", { class: "panel tapes", "aria-label": "The machine step by step" }, ...groups.map((group) => element("div", { class: "group" }, ...group.map(({ node }) => node))));
  const legend = element("div", { class: "legends" });
  stack.append(legend, readout);
  root.append(element("div", { class: "bar" }, clock.node), stack);
  const resized = new ResizeObserver(layout);
  resized.observe(stack);
  signal.addEventListener("abort", () => resized.disconnect());
  onTheme(() => { panels.forEach(colour); key(); paint(); }, signal);
  clock.reset(steps);
  layout();
  key();
  paint();

  function build({ name, values, places = false, unit }) {
    const rows = values.shape[1];
    const image = drawing("image", { width: steps, height: rows, preserveAspectRatio: "none" });
    const veil = drawing("rect", { class: "veil", y: 0, height: rows });
    const cursor = drawing("rect", { class: "cursor", y: 0, width: 1, height: rows });
    const label = `${name}: ${rows} ${unit}s over ${steps} steps`;
    const shown = drawing("svg", { class: "tape", viewBox: `0 0 ${steps} ${rows}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, image, veil, cursor);
    const axes = drawing("svg", { class: "ticks", "aria-hidden": "true" });
    let top = 1;
    if (unit === "number") for (const value of values.values) top = Math.max(top, Math.abs(value));
    shown.addEventListener("pointermove", (event) => {
      const [x, y] = within(shown, event);
      pointed = x >= 0 && x < steps && y >= 0 && y < rows ? { step: Math.floor(x), row: Math.floor(y) } : null;
      paint();
    }, { signal });
    shown.addEventListener("pointerleave", () => { pointed = null; paint(); }, { signal });
    const node = element("div", { class: "tracks" }, element("h3", { class: "small" }, name, element("span", { class: "note" }, places ? " weights over the rows of the memory" : unit === "number" ? ` vectors of ${rows} numbers` : ` ${rows} bits`)), axes, shown);
    const panel = { node, name, values, places, image, veil, cursor, shown, axes, rows, top };
    colour(panel);
    return panel;
  }

  // Square cells, as large as there is room, in two columns if both fit; rows and steps numbered at round numbers.
  function layout() {
    const room = stack.clientWidth - 2 * parseFloat(getComputedStyle(stack).paddingLeft || 0);
    const two = room >= 2 * (steps * CELL.most * 0.6 + GUTTER + 24);
    stack.classList.toggle("two", two);
    const inner = (two ? room / 2 - 24 : room) - GUTTER;
    const cell = Math.min(CELL.most, Math.max(CELL.least, inner / steps));
    const bottom = panels.slice(two ? -2 : -1);
    for (const panel of panels) {
      const { axes, shown, rows, places } = panel;
      const last = bottom.includes(panel);
      const [wide, high] = [Math.min(inner, steps * cell), rows * cell];
      shown.style.width = `${wide}px`;
      shown.style.height = `${high}px`;
      const below = last ? 34 : 4;
      shown.style.bottom = `${below}px`;
      axes.setAttribute("width", GUTTER + wide + 20);
      axes.setAttribute("height", high + below);
      const text = (x, y, anchor, words) => drawing("text", { x, y, "text-anchor": anchor }, words);
      const every = round(14 / cell);
      const marks = places ? data.rows.flatMap((row, i) => (row % every === 0 ? [text(GUTTER - 8, (i + 0.5) * cell + 4, "end", row)] : [])) : [];
      if (last) {
        const apart = round((28 * steps) / wide);
        for (let t = 0; t < steps; t++) {
          if (t === 0 || (t + 1) % apart === 0) marks.push(text(GUTTER + ((t + 0.5) * wide) / steps, high + 16, "middle", t + 1));
        }
        marks.push(text(GUTTER + wide, high + 31, "end", "step"));
      }
      axes.replaceChildren(...marks);
    }
  }

  // The smallest of 1, 2, 5, 10, 20, … that is not less.
  function round(least) {
    const ten = 10 ** Math.floor(Math.log10(Math.max(1, least)));
    return [1, 2, 5, 10].find((times) => times * ten >= least) * ten;
  }

  function colour({ image, values, top, rows }) {
    const { packed } = ramp();
    const at = (i) => values.values[(i % steps) * rows + Math.floor(i / steps)] * values.scale;
    const paintOf = values.values instanceof Float32Array ? (i) => signed(at(i) / top) : (i) => packed[Math.min(255, Math.max(0, Math.round(255 * at(i))))];
    image.setAttribute("href", shades(steps, rows, paintOf));
  }

  // What the colours mean.
  function key() {
    const scale = (from, to, what, colourOf) => {
      const bar = drawing("svg", { class: "scale", viewBox: "0 0 64 1", preserveAspectRatio: "none" }, drawing("image", { href: shades(64, 1, (i) => colourOf(i / 63)), width: 64, height: 1, preserveAspectRatio: "none" }));
      return element("span", { class: "legend" }, `${what} `, element("span", {}, from), bar, element("span", {}, to));
    };
    const { packed } = ramp();
    const top = Math.max(...panels.map((panel) => panel.top)).toFixed(1);
    legend.replaceChildren(
      scale("0", "100 %", "weights", (share) => packed[Math.round(255 * share)]),
      ...(data.vectors.length ? [scale(`−${top}`, top, "vectors", (share) => signed(2 * share - 1))] : []),
    );
  }

  function describe() {
    const t = pointed?.step ?? time;
    if (t === null || t === undefined) return "Point at a step, or play the machine.";
    const heads = panels.filter(({ places }) => places).map(({ name, values }) => {
      const row = values.values.subarray(t * values.shape[1], (t + 1) * values.shape[1]);
      const best = row.indexOf(Math.max(...row));
      return `${name} at row ${data.rows[best]} (${percent(row[best] * values.scale)})`;
    });
    return `Step ${t + 1} of ${steps}: ${heads.join(", ")}`;
  }

  function paint() {
    const t = pointed?.step ?? time;
    for (const { veil, cursor } of panels) {
      veil.setAttribute("x", time === null ? steps : time + 1);
      veil.setAttribute("width", time === null ? 0 : steps - time - 1);
      cursor.setAttribute("visibility", t === null || t === undefined ? "hidden" : "visible");
      if (t !== null && t !== undefined) cursor.setAttribute("x", t);
    }
    readout.textContent = describe();
  }
});
