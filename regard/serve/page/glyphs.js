// A small drawing for each kind of answer; some systems have their own.

import { drawing } from "../viewer/dom.js";

const SIZE = 64;

const GLYPHS = {
  text: () => {
    const weights = [[9, 1, 0, 0], [2, 8, 1, 0], [0, 1, 2, 8], [0, 1, 9, 2]];
    return weights.flatMap((row, y) => row.map((w, x) => square(4 + 14 * x, 4 + 14 * y, 13, 0.08 + 0.1 * w)));
  },
  digits: () => [
    path("M20 20c6-12 26-10 24 4-1 9-14 14-23 24h25", "faint thick"),
    path("M14 44 38 18 46 40", "line"),
    ...[[14, 44], [38, 18], [46, 40]].map(([x, y]) => drawing("rect", { x: x - 8, y: y - 8, width: 16, height: 16, rx: 2, class: "line" })),
  ],
  Vision: () => [
    drawing("rect", { x: 6, y: 10, width: 52, height: 44, rx: 4, class: "faint" }),
    path("M8 48 24 30l10 10 8-7 14 15", "line"),
    circle(42, 22, 5, 0.9),
    circle(42, 22, 11, 0.2),
  ],
  "Speech and strokes": () => [4, 12, 22, 14, 26, 16, 9, 20, 6].map((height, i) => drawing("rect", { x: 4 + 6.4 * i, y: 32 - height, width: 4, height: 2 * height, rx: 2, class: "fill", opacity: (0.25 + 0.03 * height).toFixed(2) })),
  stn: () => [
    path("M12 20 38 8 50 36 24 48Z", "faint"),
    path("M24 20c2-8 14-6 11 2-2 5-7 8-10 14l13-4", "faint thick"),
    path("M12 20 38 8 50 36 24 48Z", "line"),
    path("M44 46c6 1 10 4 12 10M50 55l6 2 2-6", "line"),
  ],
  draw: () => [
    path("M20 16c8-10 24-4 20 8-2 6-8 8-12 8 10 0 18 6 14 16-4 9-18 10-24 2", "faint thick"),
    path("M20 16c8-10 24-4 20 8-2 6-8 8-12 8", "fill-none thick accent"),
    drawing("rect", { x: 18, y: 20, width: 26, height: 22, rx: 3, class: "line" }),
  ],
  games: () => [
    ...[[22, 8], [27, 20], [32, 32]].map(([x, y], i) => circle(x, y, 3.5, 0.25 + 0.25 * i)),
    path("M32 36 41 52", "line dash"),
    drawing("rect", { x: 30, y: 54, width: 22, height: 5, rx: 2.5, class: "fill" }),
  ],
  stories: () => [0, 1, 2, 3].flatMap((y) => [
    drawing("rect", { x: 4, y: 7 + 14 * y, width: [28, 22, 31, 25][y], height: 7, rx: 3.5, class: "faint-fill" }),
    square(39, 4 + 14 * y, 11, [0.1, 0.9, 0.1, 0.15][y]),
    square(52, 4 + 14 * y, 11, [0.1, 0.15, 0.1, 0.9][y]),
  ]),
  tapes: () => Array.from({ length: 8 }, (_, i) => square(2 + 7.6 * i, 6 + 6.6 * (i % 4), 7, 0.95)).concat(path("M2 38h60M2 46h60M2 54h60", "faint")),
  counting: () => [0, 1, 2].flatMap((x) => Array.from({ length: x + 2 }, (_, y) => square(6 + 19 * x, 48 - 12 * y, 15, 0.3 + 0.2 * y))),
  graph: () => [
    ...[[10, 14], [52, 10], [56, 44], [14, 52]].flatMap(([x, y], i) => [
      drawing("line", { x1: 32, y1: 32, x2: x, y2: y, class: "line", "stroke-width": [1, 5, 2, 3][i] }),
      circle(x, y, 6, 0.45),
    ]),
    circle(32, 32, 8, 1),
  ],
};

export function glyph({ family, kind, system }) {
  const shapes = GLYPHS[system] ?? GLYPHS[kind] ?? GLYPHS[family] ?? GLYPHS.text;
  return drawing("svg", { class: "glyph", viewBox: `0 0 ${SIZE} ${SIZE}`, "aria-hidden": "true" }, ...shapes());
}

// A sentence and its translation, joined by what looked at what.
export function banner() {
  const source = { I: 36, love: 110, "coffee.": 205 };
  const target = { Me: 30, encanta: 102, el: 168, "café.": 226 };
  const links = [[30, 36, 0.7], [30, 110, 0.25], [102, 110, 0.95], [168, 205, 0.6], [168, 110, 0.2], [226, 205, 0.95]];
  const word = (y) => ([text, x]) => drawing("text", { x, y, "text-anchor": "middle" }, text);
  return drawing(
    "svg",
    { class: "banner", viewBox: "0 0 260 170", "aria-hidden": "true" },
    ...links.map(([from, to, weight]) => drawing("path", { d: `M${from} 118C${from} 84 ${to} 86 ${to} 52`, class: "line", "stroke-width": 1 + 8 * weight, opacity: 0.15 + 0.6 * weight })),
    ...Object.entries(source).map(word(38)),
    ...Object.entries(target).map(word(142)),
  );
}

function square(x, y, side, opacity) {
  return drawing("rect", { x, y, width: side, height: side, rx: 2, class: "fill", opacity: Math.min(1, opacity).toFixed(2) });
}

function circle(cx, cy, r, opacity) {
  return drawing("circle", { cx, cy, r, class: "fill", opacity });
}

function path(d, kind) {
  return drawing("path", { d, class: kind });
}
