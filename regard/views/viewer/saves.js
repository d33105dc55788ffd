// Buttons under a view: what is seen now as PNG or SVG, and its numbers as JSON.

import { element } from "./dom.js";
import { pngFile, snapshot, svgFile } from "./snapshot.js";

export function saves(view, picture) {
  const files = {
    PNG: () => pngFile(snapshot(picture)),
    SVG: () => svgFile(snapshot(picture)),
    JSON: () => new Blob([JSON.stringify(plain(view))], { type: "application/json" }),
  };
  const status = element("span", { role: "status" });
  const buttons = Object.entries(files).map(([name, make]) => {
    const click = async () => {
      try {
        download(await make(), `${slug(view.title || view.kind)}.${name.toLowerCase()}`);
        status.textContent = "";
      } catch (error) {
        status.textContent = `not saved: ${error.message}`;
      }
    };
    return element("button", { type: "button", "aria-label": `Save as ${name}`, on: { click } }, name);
  });
  return element("div", { class: "saves", role: "group", "aria-label": "Save" }, "Save as", ...buttons, status);
}

// Arrays as nested lists of numbers, to four digits.
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  if (ArrayBuffer.isView(value.values)) return nested(value.shape, value.values, value.scale);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
}

function nested([size, ...rest], values, scale) {
  if (size === undefined) return number(values[0], scale);
  if (!rest.length) return Array.from(values, (value) => number(value, scale));
  const step = size ? values.length / size : 0;
  return Array.from({ length: size }, (_, i) => nested(rest, values.subarray(i * step, (i + 1) * step), scale));
}

function number(value, scale) {
  return Number.isInteger(value) && scale === 1 ? value : Number((value * scale).toPrecision(4));
}

function slug(title) {
  const slugWords = [...title.normalize("NFKD").toLowerCase().matchAll(/[\p{L}\p{N}]+/gu)].map(([word]) => word);
  return slugWords.join("-").slice(0, 60) || "view";
}

function download(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
