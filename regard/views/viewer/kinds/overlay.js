// An image and where each word of a text about it looked; `noun` says what else the rows may be, such as hops.
//
// data: { image (C, height, width), words: [token], noun, weights (T, high, wide) }

import { drawing, element } from "../dom.js";
import { picture, shades, stage } from "../pixels.js";
import { reader } from "../reader.js";
import { register } from "../registry.js";
import { percent, visible } from "../text.js";

register("overlay", (data, root, { signal, announce, keyboard }) => {
  const { image, words, noun = "word", weights } = data;
  const [, height, width] = image.shape;
  const [, high, wide] = weights.shape;
  const below = picture(image);
  const text = reader(words, { noun, signal, keyboard, announce, describe, paint });
  const field = element("section", { class: "panel field", "aria-label": "The image" });
  const thumbs = words.map((word, t) =>
    element("figure", { class: "tiny" }, veiled(t), element("figcaption", {}, element("bdi", {}, visible(word)))),
  );
  const readout = element("p", { class: "readout", role: "status" });
  root.append(...text.nodes, field, element("section", { class: "panel strip", "aria-label": `All ${noun}s` }, ...thumbs));

  // Which rows looked at a place: the one under the pointer, or the one that was clicked.
  let pinned = null;
  const at = (event) => {
    const box = field.querySelector("svg").getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * wide);
    const y = Math.floor(((event.clientY - box.top) / box.height) * high);
    return x >= 0 && x < wide && y >= 0 && y < high ? y * wide + x : null;
  };
  const report = (place) => { readout.textContent = place === null ? describe() : lookers(place); };
  field.addEventListener("pointermove", (event) => report(at(event) ?? pinned), { signal });
  field.addEventListener("pointerleave", () => report(pinned), { signal });
  field.addEventListener("click", (event) => {
    const place = at(event);
    pinned = place === pinned ? null : place;
    report(pinned);
    announce(readout.textContent);
  }, { signal });
  text.start();

  function lookers(place) {
    const share = (t) => weights.values[t * high * wide + place];
    const order = words.map((_, t) => t).sort((a, b) => share(b) - share(a)).slice(0, 3);
    const mentioned = order.map((t) => `“${visible(words[t])}” ${percent(share(t) * weights.scale)}`);
    return `Row ${Math.floor(place / wide) + 1}, column ${(place % wide) + 1}: looked at most for ${mentioned.join(", ")}`;
  }

  // The image, veiled where the row did not look.
  function veiled(t, label = "") {
    if (t === null) return stage(width, height, below, "The image");
    const values = weights.values.subarray(t * high * wide, (t + 1) * high * wide);
    const most = Math.max(...values, 1);
    const dark = (i) => (Math.round(205 * (1 - values[i] / most)) << 24) >>> 0;
    const veil = drawing("image", { class: "smooth", href: shades(wide, high, dark), width, height, preserveAspectRatio: "none" });
    return stage(width, height, below, label || `Where “${visible(words[t])}” looked`, veil);
  }

  function describe() {
    const t = text.now();
    if (t === null) return `Point at a ${noun} or at a place of the image, or play all.`;
    const values = weights.values.subarray(t * high * wide, (t + 1) * high * wide);
    return `“${visible(words[t])}”: the strongest of ${high} × ${wide} places has ${percent(Math.max(...values) * weights.scale)}`;
  }

  function paint() {
    const t = text.now();
    pinned = null;
    readout.textContent = describe();
    field.replaceChildren(veiled(t), readout);
    thumbs.forEach((figure, index) => figure.classList.toggle("future", text.played() !== null && index > text.played()));
  }
});
