// Encodings of positions: the numbers of each, and how alike two positions are.
//
// data: { values (positions, dimensions), float32 }

import { drawing, element } from "../dom.js";
import { shades, within } from "../pixels.js";
import { register } from "../registry.js";
import { onTheme, signed } from "../theme.js";

register("positions", (data, root, { signal, announce }) => {
  const { shape: [count, width], values } = data.values;
  let top = 0;
  for (const value of values) top = Math.max(top, Math.abs(value));
  let chosen = Math.floor(count / 2);

  const image = drawing("image", { width, height: count, preserveAspectRatio: "none" });
  const cursor = drawing("rect", { class: "cursor", x: 0, width, height: 1 });
  const map = drawing("svg", { class: "tape", viewBox: `0 0 ${width} ${count}`, preserveAspectRatio: "none", role: "img", "aria-label": `${count} positions of ${width} numbers` }, image, cursor);
  map.style.height = `${Math.min(Math.max(count * 6, 120), 420)}px`;
  const curve = drawing("svg", { class: "curve", viewBox: "0 -1.05 100 2.1", preserveAspectRatio: "none", role: "img" });
  const slider = element("input", { type: "range", min: 1, max: count, value: chosen + 1, "aria-label": "Position", on: { input: () => { chosen = Number(slider.value) - 1; paint(); announce(readout.textContent); } } });
  const readout = element("p", { class: "readout", role: "status" });
  map.addEventListener("pointermove", (event) => {
    const [x, y] = within(map, event).map(Math.floor);
    if (x < 0 || y < 0 || x >= width || y >= count) return;
    chosen = y;
    slider.value = y + 1;
    paint(x);
  }, { signal });
  root.append(
    element("div", { class: "bar" }, element("label", { class: "choice wide" }, "Position", slider)),
    element("section", { class: "panel tapes", "aria-label": "Encodings" }, element("h3", { class: "small" }, "Positions downwards, dimensions to the right"), map, readout),
    element("section", { class: "panel tapes", "aria-label": "Likeness" }, element("h3", { class: "small" }, "How alike the position is to every other (cosine)"), curve),
  );
  onTheme(colour, signal);
  colour();
  paint();

  function colour() {
    image.setAttribute("href", shades(width, count, (i) => signed(top ? values[i] / top : 0)));
  }

  function likeness(a, b) {
    let [dot, one, two] = [0, 0, 0];
    for (let d = 0; d < width; d++) {
      const [x, y] = [values[a * width + d], values[b * width + d]];
      dot += x * y;
      one += x * x;
      two += y * y;
    }
    return dot / Math.sqrt(one * two || 1);
  }

  function paint(dimension = null) {
    cursor.setAttribute("y", chosen);
    const points = Array.from({ length: count }, (_, other) => `${((other + 0.5) * 100) / count},${-likeness(chosen, other)}`);
    const middle = ((chosen + 0.5) * 100) / count;
    curve.replaceChildren(
      drawing("line", { class: "axis", x1: 0, x2: 100, y1: 0, y2: 0 }),
      drawing("line", { class: "axis", x1: middle, x2: middle, y1: -1, y2: 1 }),
      drawing("polyline", { class: "trail", points: points.join(" ") }),
    );
    curve.setAttribute("aria-label", `Likeness of position ${chosen + 1} to all ${count}`);
    const value = dimension === null ? "" : `, dimension ${dimension + 1}: ${values[chosen * width + dimension].toFixed(3).replace("-", "−")}`;
    readout.textContent = `Position ${chosen + 1}${value}`;
  }
});
