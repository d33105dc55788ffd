// Light and dark, as the system says or the reader chose, and the colours of weights.

const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
let chosen = null;
try {
  chosen = localStorage.getItem("regard-theme");
} catch {
  // A sandboxed frame has no storage; the choice then lasts as long as the page.
}

export function dark() {
  return chosen ? chosen === "dark" : system.matches;
}

export function toggle() {
  chosen = dark() ? "light" : "dark";
  try {
    localStorage.setItem("regard-theme", chosen);
  } catch {
    // as above
  }
  apply();
}

export function onTheme(listener, signal) {
  listeners.add(listener);
  signal?.addEventListener("abort", () => listeners.delete(listener));
}

export function apply() {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

system.addEventListener("change", apply);

// One hue from the background to full strength; the lightness is monotone, so it reads without colour too.
const LIGHT = ["#f2f5f9", "#c5dbf0", "#7cb0db", "#2a78ba", "#083d7a"];
const DARK = ["#1c222b", "#1d4365", "#2a76ad", "#72b8ea", "#e6f4ff"];

export function stops() {
  return dark() ? DARK : LIGHT;
}

// 256 colours, as packed RGBA for ImageData (`packed`) and as text (`text`), and what is legible on each (`over`).
export function ramp() {
  const found = stops().map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));
  const packed = new Uint32Array(256);
  const text = [];
  const light = [];
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (found.length - 1);
    const low = Math.min(Math.floor(place), found.length - 2);
    const [r, g, b] = found[low].map((from, k) => Math.round(from + (found[low + 1][k] - from) * (place - low)));
    packed[i] = (255 << 24) | (b << 16) | (g << 8) | r;
    text.push(`rgb(${r} ${g} ${b})`);
    light.push(luminance(r, g, b));
  }
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const over = light.map((own) => text[contrast(own, light[0]) > contrast(own, light[255]) ? 0 : 255]);
  return { packed, text, over };
}

// As WCAG defines it.
function luminance(...rgb) {
  const [r, g, b] = rgb.map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
