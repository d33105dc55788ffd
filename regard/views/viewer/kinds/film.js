// The frames of a clip and where each word of a text about it looked.
//
// data: { frames (F, C, height, width), names: [text], words: [token], weights (T, F) }

import { drawing, element } from "../dom.js";
import { picture, stage } from "../pixels.js";
import { reader } from "../reader.js";
import { register } from "../registry.js";
import { percent, visible } from "../text.js";

register("film", (data, root, { signal, announce, keyboard }) => {
  const { frames, names, words, weights } = data;
  const [count, , height, width] = frames.shape;
  const top = Math.max(...weights.values, 1) * weights.scale;
  const text = reader(words, { signal, keyboard, announce, describe, paint });
  const shots = names.map((name, f) => {
    const veil = drawing("rect", { width, height, fill: "#000000" });
    const share = element("span", { class: "share" });
    const line = element("span", { class: "bar-line", "aria-hidden": "true" }, element("span", {}));
    const shown = stage(width, height, picture(frames, f), `Frame ${name}`, veil);
    return { veil, line, share, node: element("figure", { class: "tiny" }, shown, line, element("figcaption", {}, `${name} · `, share)) };
  });
  const readout = element("p", { class: "readout", role: "status" });
  root.append(
    ...text.nodes,
    element("section", { class: "panel", "aria-label": "The frames" }, element("div", { class: "strip" }, ...shots.map(({ node }) => node)), readout),
  );
  text.start();

  // The weight of a frame for a word; without one, its mean over all words.
  function weight(t, f) {
    const at = (row) => weights.values[row * count + f] * weights.scale;
    if (t !== null) return at(t);
    return words.reduce((sum, _, row) => sum + at(row), 0) / Math.max(words.length, 1);
  }

  function describe() {
    const t = text.now();
    if (t === null) return "Point at a word, or play the sentence. The bars are means over all words.";
    const shares = names.map((_, f) => weight(t, f));
    const best = shares.indexOf(Math.max(...shares));
    return `“${visible(words[t])}”: most on frame ${names[best]}, ${percent(shares[best])}`;
  }

  function paint() {
    const t = text.now();
    const most = Math.max(...names.map((_, f) => weight(t, f)), 1e-9);
    readout.textContent = describe();
    shots.forEach(({ veil, line, share }, f) => {
      const value = weight(t, f);
      veil.setAttribute("opacity", t === null ? 0 : (0.8 * (1 - value / most)).toFixed(3));
      line.style.setProperty("--share", Math.min(1, value / top).toFixed(3));
      share.textContent = percent(value);
    });
  }
});
