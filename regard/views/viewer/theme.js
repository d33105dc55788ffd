// Light and dark, as the document's root says by data-theme, else the system, and the colours of weights.

const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
const listeners = new Set();

export function dark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
}

export function toggle() {
  root.dataset.theme = dark() ? "light" : "dark";
  try {
    localStorage.setItem("regard-theme", root.dataset.theme);
  } catch {
    // A sandboxed frame has no storage; the choice then lasts as long as the page.
  }
}

// What the reader chose the last time.
export function recall() {
  try {
    const chosen = localStorage.getItem("regard-theme");
    if (chosen) root.dataset.theme = chosen;
  } catch {
    // as above
  }
}

export function onTheme(listener, signal) {
  listeners.add(listener);
  signal?.addEventListener("abort", () => listeners.delete(listener));
}

function changed() {
  for (const listener of listeners) listener();
}
system.addEventListener("change", changed);
new MutationObserver(changed).observe(root, { attributeFilter: ["data-theme"] });

// One hue from the background to full strength; the lightness is monotone, so it reads without colour too.
const LIGHT = ["#f2f5f9", "#c5dbf0", "#7cb0db", "#2a78ba", "#083d7a"];
const DARK = ["#1c222b", "#1d4365", "#2a76ad", "#72b8ea", "#e6f4ff"];

// 256 colours, as packed RGBA for ImageData (`packed`) and as text (`text`), and what is legible on each (`over`).
export function ramp() {
  const stops = (dark() ? DARK : LIGHT).map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));
  const packed = new Uint32Array(256);
  const text = [];
  const light = [];
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    const [r, g, b] = stops[low].map((from, k) => Math.round(from + (stops[low + 1][k] - from) * (place - low)));
    packed[i] = (255 << 24) | (b << 16) | (g << 8) | r;
    text.push(`rgb(${r}, ${g}, ${b})`);
    light.push(luminance(r, g, b));
  }
  // Of white and black the better one always has a contrast of 4.5 or more.
  const over = light.map((own) => (1.05 / (own + 0.05) > (own + 0.05) / 0.05 ? "#ffffff" : "#000000"));
  return { packed, text, over };
}

// Packed RGBA of a number from −1 to 1: orange below zero, blue above; told apart by colour-blind readers too.
export function signed(share) {
  const { below, zero, above } = dark() ? SIGNED.dark : SIGNED.light;
  const [r, g, b] = (share < 0 ? below : above).map((part, i) => Math.round(zero[i] + (part - zero[i]) * Math.min(1, Math.abs(share))));
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
const SIGNED = {
  light: { below: [213, 94, 0], zero: [247, 247, 247], above: [0, 98, 176] },
  dark: { below: [255, 150, 90], zero: [28, 34, 43], above: [111, 184, 251] },
};

// As WCAG defines it.
function luminance(...rgb) {
  const [r, g, b] = rgb.map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
