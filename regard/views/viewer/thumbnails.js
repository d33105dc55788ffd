// All layers and heads at a glance: a small heat map of each, and the effective number of words it attends to.

import { darkest } from "./data.js";
import { element } from "./dom.js";
import { onTheme, ramp } from "./theme.js";

const SIDE = 72; // pixels at most
const FINEST = 144; // cells drawn each way; of more, the strongest of neighbours

// `choose(layer, head)` gets the head that was clicked.
export function thumbnails({ layerNames, choose, signal }) {
  const grid = element("div", { class: "thumbnails" });
  // Beside the grid, which may scroll on a narrow screen, the note would be cut.
  const note = element("p", { class: "note" }, "Under each head: over how many words a look is spread, as if evenly (the exponential of its mean entropy).");
  const node = element("div", {}, grid, note);
  let shown = null;
  let full = false;
  let buttons = [];
  onTheme(() => draw(), signal);

  function paint(weights, layer, head, fixed) {
    const again = full !== fixed;
    full = fixed;
    if (shown !== weights) {
      shown = weights;
      build();
    } else if (again) {
      draw();
    }
    for (const { button, at } of buttons) {
      button.setAttribute("aria-pressed", (layer === null || at.layer === layer) && (head === null || at.head === head));
    }
  }

  function build() {
    const { shape } = shown;
    const heads = shape.at(-3);
    const layers = shape.length > 3 ? shape.at(-4) : 1;
    const lines = [];
    buttons = [];
    for (let layer = 0; layer < layers; layer++) {
      const cells = [];
      for (let head = 0; head < heads; head++) {
        const canvas = element("canvas", { "aria-hidden": "true" });
        const spread = element("span", { class: "spread" });
        const button = element("button", { type: "button", class: "thumb", on: { click: () => choose(layer, head) } }, canvas, spread);
        buttons.push({ button, canvas, spread, at: { layer, head } });
        cells.push(button);
      }
      const name = layers > 1 && element("span", { class: "layer" }, element("bdi", {}, layerNames[layer]));
      lines.push(element("div", { class: "line" }, name, ...cells));
    }
    const longest = Math.max(...layerNames.slice(0, layers).map((name) => String(name).length));
    grid.style.setProperty("--names", `${Math.min(9, 0.7 * longest + 0.5)}em`);
    grid.replaceChildren(...lines);
    draw();
  }

  function draw() {
    if (!shown) return;
    const colours = ramp();
    const [rows, columns] = shown.shape.slice(-2);
    const heads = shown.shape.at(-3);
    const steps = [Math.max(1, Math.ceil(rows / FINEST)), Math.max(1, Math.ceil(columns / FINEST))];
    const [high, wide] = [Math.ceil(rows / steps[0]), Math.ceil(columns / steps[1])];
    for (const { button, canvas, spread, at } of buttons) {
      const values = shown.values.subarray((at.layer * heads + at.head) * rows * columns).subarray(0, rows * columns);
      let most = 0;
      for (let i = 0; i < values.length; i++) most = Math.max(most, values[i]);
      const factor = (255 * shown.scale) / (full ? 1 : darkest(most * shown.scale, columns));
      const cells = new Uint8Array(wide * high);
      for (let t = 0; t < rows; t++) {
        for (let s = 0; s < columns; s++) {
          const cell = Math.floor(t / steps[0]) * wide + Math.floor(s / steps[1]);
          cells[cell] = Math.max(cells[cell], Math.min(255, Math.round(values[t * columns + s] * factor)));
        }
      }
      canvas.width = wide;
      canvas.height = high;
      const scale = SIDE / Math.max(wide, high);
      canvas.style.width = `${Math.max(8, wide * scale)}px`;
      canvas.style.height = `${Math.max(8, high * scale)}px`;
      const context = canvas.getContext("2d");
      const image = context.createImageData(wide, high);
      const packed = new Uint32Array(image.data.buffer);
      cells.forEach((level, i) => { packed[i] = colours.packed[level]; });
      context.putImageData(image, 0, 0);
      const words = Math.exp(entropy(values, rows, columns));
      spread.textContent = words.toFixed(1);
      button.setAttribute("aria-label", `Layer ${at.layer + 1}, head ${at.head + 1}: looks are spread over ${words.toFixed(1)} words`);
    }
  }

  return { node, paint };
}

// The mean entropy of the rows that have any weight, in nats.
export function entropy(values, rows, columns) {
  let [total, count] = [0, 0];
  for (let t = 0; t < rows; t++) {
    let [sum, logs] = [0, 0];
    for (let s = 0; s < columns; s++) {
      const value = values[t * columns + s];
      sum += value;
      if (value > 0) logs += value * Math.log(value);
    }
    if (sum > 0) {
      total += Math.log(sum) - logs / sum;
      count += 1;
    }
  }
  return count ? total / count : 0;
}
