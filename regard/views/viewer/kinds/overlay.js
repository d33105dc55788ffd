// An image and where each word of a text about it looked.
//
// data: { image (C, height, width), words: [token], weights (T, high, wide) }

import { drawing, element } from "../dom.js";
import { picture, shades, stage } from "../pixels.js";
import { reader } from "../reader.js";
import { register } from "../registry.js";
import { percent, visible } from "../text.js";

register("overlay", (data, root, { signal, announce, keyboard }) => {
  const { image, words, weights } = data;
  const [, height, width] = image.shape;
  const [, high, wide] = weights.shape;
  const below = picture(image);
  const text = reader(words, { signal, keyboard, announce, told, paint });
  const field = element("section", { class: "panel field", "aria-label": "The image" });
  const small = words.map((word, t) =>
    element("figure", { class: "tiny" }, looked(t), element("figcaption", {}, element("bdi", {}, visible(word)))),
  );
  const readout = element("p", { class: "readout", role: "status" });
  root.append(...text.nodes, field, element("section", { class: "panel strip", "aria-label": "All words" }, ...small));
  text.start();

  // The image, veiled where the word did not look.
  function looked(t, label = "") {
    if (t === null) return stage(width, height, below, "The image");
    const values = weights.values.subarray(t * high * wide, (t + 1) * high * wide);
    const most = Math.max(...values, 1);
    const dark = (i) => (Math.round(205 * (1 - values[i] / most)) << 24) >>> 0;
    const veil = drawing("image", { class: "smooth", href: shades(wide, high, dark), width, height, preserveAspectRatio: "none" });
    return stage(width, height, below, label || `Where “${visible(words[t])}” looked`, veil);
  }

  function told() {
    const t = text.now();
    if (t === null) return "Point at a word, or play the sentence.";
    const values = weights.values.subarray(t * high * wide, (t + 1) * high * wide);
    return `“${visible(words[t])}”: the strongest of ${high} × ${wide} places has ${percent(Math.max(...values) * weights.scale)}`;
  }

  function paint() {
    const t = text.now();
    readout.textContent = told();
    field.replaceChildren(looked(t), readout);
    small.forEach((figure, index) => figure.classList.toggle("future", text.played() !== null && index > text.played()));
  }
});
