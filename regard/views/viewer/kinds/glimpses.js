// Where a network looked in an image, what it saw there, and how it classified it, glimpse after glimpse.
//
// data: { image (F, C, height, width), one for all glimpses or one for each and one for the end, location (T, 2) from
//         −1 to 1, patch (T, C, scales, size, size), sides: [pixels], probability (T, classes) and classes: [name], or
//         null, actions: [text] | null, objects: [number] | null, for which object each glimpse is, end: text }

import { bars } from "../bars.js";
import { drawing, element } from "../dom.js";
import { picture, stage } from "../pixels.js";
import { player } from "../player.js";
import { register } from "../registry.js";
import { percent } from "../text.js";

register("glimpses", (data, root, { signal, announce, keyboard }) => {
  const { image, location, patch, sides, probability, classes, actions, objects, end } = data;
  const [frames, , height, width] = image.shape;
  const steps = location.shape[0];
  let time = null;

  const field = element("section", { class: "panel field", "aria-label": "The image and the path over it" });
  const glimpsePanel = element("section", { class: "panel", "aria-label": "What it saw" });
  const clock = player({
    noun: "glimpse",
    signal,
    keyboard,
    change: (value) => { time = value; paint(); },
    stepped: () => announce(describe()),
  });
  const buttons = Array.from({ length: steps }, (_, t) =>
    element("button", { type: "button", class: "thumb", "aria-label": `Glimpse ${t + 1}`, on: { click: () => clock.go(t) } }, patchImage(t, 0), `${t + 1}`),
  );
  const strip = element("div", { class: "strip", role: "group", "aria-label": "Glimpses" }, ...buttons);
  root.append(
    element("div", { class: "bar" }, clock.node),
    element("div", { class: "split" }, field, glimpsePanel),
    element("section", { class: "panel", "aria-label": "All glimpses" }, strip),
  );
  clock.reset(steps);
  paint();

  // The patch of a glimpse at a scale.
  function patchImage(t, scale, label = "") {
    const [, channels, scales, high, wide] = patch.shape;
    const size = high * wide;
    const values = new Float32Array(channels * size);
    for (let c = 0; c < channels; c++) {
      const start = ((t * channels + c) * scales + scale) * size;
      for (let i = 0; i < size; i++) values[c * size + i] = patch.values[start + i] * patch.scale;
    }
    const aria = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
    const href = picture({ shape: [channels, high, wide], values, scale: 1 });
    return drawing("svg", { class: "seen", viewBox: "0 0 1 1", ...aria }, drawing("image", { href, width: 1, height: 1 }));
  }

  function place(t) {
    const [x, y] = [location.values[2 * t], location.values[2 * t + 1]];
    return [((x + 1) / 2) * width, ((y + 1) / 2) * height];
  }

  function classShares(t) {
    const shares = classes.map((name, k) => ({ name, weight: probability.values[t * classes.length + k] * probability.scale }));
    const most = Math.max(...shares.map(({ weight }) => weight));
    return shares.map((item) => ({ ...item, marked: item.weight === most }));
  }

  function describe() {
    const t = time ?? steps - 1;
    const best = probability && classShares(t).find(({ marked }) => marked);
    const guess = best ? `: ${best.name}, ${percent(best.weight)}` : actions ? `: ${actions[t]}` : "";
    return time === null && end ? end : `glimpse ${t + 1} of ${steps}${objects ? `, object ${objects[t] + 1}` : ""}${guess}`;
  }

  function paint() {
    const now = time ?? steps - 1;
    const moving = frames > 1;
    const path = Array.from({ length: now + 1 }, (_, t) => place(t)).slice(moving ? -1 : 0);
    const radius = 0.026 * Math.max(width, height);
    const squares = sides.map((side) => {
      const [x, y] = place(now).map((value) => Math.floor(value - side / 2 + 0.5));
      return drawing("rect", { class: "square", x, y, width: side, height: side });
    });
    const dots = path.map(([x, y], i) => {
      const t = now + 1 - path.length + i;
      const number = drawing("text", { x, y: y + 0.38 * radius, "font-size": 1.15 * radius, "text-anchor": "middle" }, `${t + 1}`);
      return drawing("g", { class: t === now ? "dot now" : "dot" }, drawing("circle", { cx: x, cy: y, r: radius }), number);
    });
    const line = drawing("polyline", { class: "trail", points: path.map((point) => point.join(",")).join(" ") });
    const frame = moving ? (time === null ? frames - 1 : now) : 0;
    const over = moving && time === null ? [] : [...squares, line, ...dots];
    field.replaceChildren(stage(width, height, picture(image, frame), describe(), ...over), element("p", { class: "readout" }, describe()));
    buttons.forEach((button, t) => {
      button.setAttribute("aria-pressed", time === t);
      button.classList.toggle("future", t > now);
    });
    const scales = sides.map((side, scale) =>
      element("figure", {}, patchImage(now, scale, `${side} × ${side} pixels`), element("figcaption", {}, `${side} × ${side}`)),
    );
    const guess = probability ? [element("h3", { class: "small" }, "Taken for"), bars(classShares(now).sort((a, b) => b.weight - a.weight).slice(0, 10), 1)] : [];
    glimpsePanel.replaceChildren(element("h3", { class: "small" }, `Glimpse ${now + 1} of ${steps}`), element("div", { class: "scales" }, ...scales), ...guess);
  }
});
