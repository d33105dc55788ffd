// Sound and where each character written of it looked. The sound can be played; a character plays its own frames.
//
// data: { image (bands, frames), words: [token], weights (T, frames), hop, samples?: little-endian 16 bits, rate? }

import { drawing, element } from "../dom.js";
import { shades, within } from "../pixels.js";
import { player } from "../player.js";
import { register } from "../registry.js";
import { labelled } from "../labelled.js";
import { visible } from "../text.js";
import { onTheme, ramp } from "../theme.js";

const AROUND = 0.08; // seconds heard before and after the frames of a character

register("spectrogram", (data, root, { signal, announce, keyboard }) => {
  const { image, words, weights, hop, samples, rate } = data;
  const [bands, frames] = image.shape;
  const height = Math.max(words.length, 1);
  let time = null;
  let pointed = null;
  let sounding = null;

  const clock = player({
    noun: "token",
    signal,
    keyboard,
    change: (value) => { time = value; paint(); },
    stepped: () => announce(describe()),
  });
  const play = element("button", { type: "button", class: "all", disabled: !samples, on: { click: () => (sounding ? silence() : sound(0, frames * hop)) } }, "Play the sound");
  const chips = words.map((word, t) => {
    const button = element("button", { type: "button", class: "asked", on: { click: () => { clock.go(t); sound(...around(t)); } } }, element("bdi", {}, visible(word)));
    button.addEventListener("pointerenter", () => { pointed = t; paint(); }, { signal });
    button.addEventListener("pointerleave", () => { pointed = null; paint(); }, { signal });
    return button;
  });
  const spectrum = panel(bands, "The spectrogram, low frequencies below", 120);
  const tall = Math.min(Math.max(height * 14, 60), 480);
  const map = panel(height, `${words.length} tokens downwards, ${(frames * hop).toFixed(1)} seconds to the right`, tall);
  const ends = element("div", { class: "ends" }, element("span", {}, "0"), element("span", {}, `${(frames * hop).toFixed(1)} s`));
  const row = drawing("rect", { class: "cursor", x: 0, width: frames, height: 1 });
  map.node.append(row);
  const readout = element("p", { class: "readout", role: "status" });
  map.node.addEventListener("pointermove", (event) => {
    const t = Math.floor(within(map.node, event)[1]);
    pointed = t >= 0 && t < words.length ? t : null;
    paint();
  }, { signal });
  map.node.addEventListener("pointerleave", () => { pointed = null; paint(); }, { signal });
  for (const { node } of [spectrum, map]) {
    node.addEventListener("click", (event) => {
      const start = Math.max(0, within(node, event)[0] * hop);
      sound(start, frames * hop);
    }, { signal });
  }
  root.append(
    element("div", { class: "bar" }, clock.node, play),
    element("div", { class: "question", role: "group", "aria-label": "Tokens" }, ...chips),
    element("section", { class: "panel tapes", "aria-label": "Sound" }, labelled(spectrum.node, words, tall, false), labelled(map.node, words, tall), labelled(ends, words, tall, false), readout),
  );
  signal.addEventListener("abort", silence);
  onTheme(colour, signal);
  colour();
  clock.reset(words.length);
  paint();

  function panel(rows, label, pixels) {
    const picture = drawing("image", { width: frames, height: rows, preserveAspectRatio: "none" });
    const line = drawing("rect", { class: "cursor", y: 0, width: 0, height: rows, visibility: "hidden" });
    const node = drawing("svg", { class: "tape", viewBox: `0 0 ${frames} ${rows}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, picture, line);
    node.style.height = `${pixels}px`;
    return { node, picture, line };
  }

  function colour() {
    const { packed } = ramp();
    const most = Math.max(...weights.values.reduce((best, value) => (best[0] = Math.max(best[0], value), best), [1]));
    const level = (share) => packed[Math.round(255 * Math.min(1, Math.max(0, share)))];
    spectrum.picture.setAttribute("href", shades(frames, bands, (i) => {
      const band = bands - 1 - Math.floor(i / frames);
      return level(image.values[band * frames + (i % frames)] * image.scale);
    }));
    map.picture.setAttribute("href", shades(frames, height, (i) => level((weights.values[i] ?? 0) / most)));
  }

  // The seconds around the peak of a token in which it looks at least a third as hard.
  function span(t) {
    const at = (f) => weights.values[t * frames + f];
    let best = 0;
    for (let f = 1; f < frames; f++) if (at(f) > at(best)) best = f;
    let [first, last] = [best, best];
    while (first > 0 && at(first - 1) >= at(best) / 3) first -= 1;
    while (last < frames - 1 && at(last + 1) >= at(best) / 3) last += 1;
    return [first * hop, (last + 1) * hop];
  }

  function around(t) {
    const [start, end] = span(t);
    return [Math.max(0, start - AROUND), Math.min(frames * hop, end + AROUND)];
  }

  // Play from one second to another; a line runs along.
  function sound(start, end) {
    silence();
    if (!samples) return;
    const bytes = samples.values;
    const reader = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const first = Math.min(Math.floor(start * rate), bytes.length / 2 - 1);
    const count = Math.max(1, Math.min(Math.floor(end * rate), bytes.length / 2) - first);
    const context = new AudioContext();
    const buffer = context.createBuffer(1, count, rate);
    const channel = buffer.getChannelData(0);
    for (let i = 0; i < count; i++) channel[i] = reader.getInt16(2 * (first + i), true) / 32768;
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    source.addEventListener("ended", silence);
    source.start();
    sounding = { context, start, end };
    play.textContent = "Stop";
    requestAnimationFrame(run);
  }

  function run() {
    if (!sounding) return;
    const now = sounding.start + sounding.context.currentTime;
    for (const { line } of [spectrum, map]) {
      line.setAttribute("x", Math.min(now, sounding.end) / hop);
      line.setAttribute("visibility", "visible");
    }
    requestAnimationFrame(run);
  }

  function silence() {
    if (!sounding) return;
    sounding.context.close();
    sounding = null;
    play.textContent = "Play the sound";
    for (const { line } of [spectrum, map]) line.setAttribute("visibility", "hidden");
  }

  function describe() {
    const t = pointed ?? time;
    if (t === null) return samples ? "Point at a token; click it to hear its frames." : "Point at a token.";
    const [start, end] = span(t);
    return `“${visible(words[t])}”: ${start.toFixed(2)} to ${end.toFixed(2)} s`;
  }

  function paint() {
    const t = pointed ?? time;
    readout.textContent = describe();
    chips.forEach((chip, index) => chip.setAttribute("aria-pressed", index === t));
    row.setAttribute("visibility", t === null ? "hidden" : "visible");
    row.setAttribute("y", t ?? 0);
  }
});
