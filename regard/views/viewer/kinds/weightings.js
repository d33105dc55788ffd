// A machine with a memory at work: what came in and went out, and where its heads were; time runs to the right.
//
// data: { bits: [{ name, values (T, width) }], weightings: [{ name, values (T, rows) }], first: the number of the first
//         row of the memory that is shown }

import { drawing, element } from "../dom.js";
import { shades, within } from "../pixels.js";
import { player } from "../player.js";
import { register } from "../registry.js";
import { percent } from "../text.js";
import { onTheme, ramp } from "../theme.js";

register("weightings", (data, root, { signal, announce, keyboard }) => {
  const steps = data.weightings[0].values.shape[0];
  let time = null;
  let pointed = null;
  const clock = player({
    noun: "step",
    signal,
    keyboard,
    change: (value) => { time = value; paint(); },
    stepped: () => announce(told()),
  });
  const readout = element("p", { class: "readout", role: "status" });
  const panels = [
    ...data.bits.map((panel) => ({ ...panel, places: false })),
    ...data.weightings.map((panel) => ({ ...panel, places: true })),
  ].map(build);
  root.append(
    element("div", { class: "bar" }, clock.node),
    element("section", { class: "panel tapes", "aria-label": "The machine step by step" }, ...panels.map(({ node }) => node), readout),
  );
  onTheme(() => { panels.forEach(colour); paint(); }, signal);
  clock.reset(steps);
  paint();

  function build({ name, values, places }) {
    const rows = values.shape[1];
    const image = drawing("image", { width: steps, height: rows, preserveAspectRatio: "none" });
    const veil = drawing("rect", { class: "veil", y: 0, height: rows });
    const cursor = drawing("rect", { class: "cursor", y: 0, width: 1, height: rows });
    const label = `${name}: ${rows} rows over ${steps} steps`;
    const shown = drawing("svg", { class: "tape", viewBox: `0 0 ${steps} ${rows}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, image, veil, cursor);
    shown.style.height = `${Math.min(Math.max(rows * 9, 40), 260)}px`;
    shown.addEventListener("pointermove", (event) => {
      const [x, y] = within(shown, event);
      pointed = x >= 0 && x < steps && y >= 0 && y < rows ? { step: Math.floor(x), row: Math.floor(y), name, values, places } : null;
      paint();
    }, { signal });
    shown.addEventListener("pointerleave", () => { pointed = null; paint(); }, { signal });
    const panel = { node: element("div", {}, element("h3", { class: "small" }, name), shown), name, values, places, image, veil, cursor };
    colour(panel);
    return panel;
  }

  function colour({ image, values }) {
    const { packed } = ramp();
    const rows = values.shape[1];
    const level = (i) => values.values[(i % steps) * rows + Math.floor(i / steps)] * values.scale;
    image.setAttribute("href", shades(steps, rows, (i) => packed[Math.min(255, Math.max(0, Math.round(255 * level(i))))]));
  }

  function told() {
    const t = pointed?.step ?? time;
    if (t === null || t === undefined) return "Point at a step, or play the machine.";
    const heads = panels.filter(({ places }) => places).map(({ name, values }) => {
      const row = values.values.subarray(t * values.shape[1], (t + 1) * values.shape[1]);
      const best = row.indexOf(Math.max(...row));
      return `${name} at row ${data.first + best} (${percent(row[best] * values.scale)})`;
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
    readout.textContent = told();
  }
});
