// Images inside drawings.

import { drawing } from "./dom.js";

// Image number `index` of an array (…, C, height, width) from 0 to 1 as an address; 3 channels are colours, of others
// the brightest is shown.
export function picture({ shape, values, scale }, index = 0) {
  const [channels, height, width] = shape.slice(-3);
  const size = height * width;
  const start = index * channels * size;
  const level = (channel, i) => 255 * scale * values[start + channel * size + i];
  return pixels(width, height, (data, i) => {
    let grey = 0;
    for (let channel = 0; channel < channels; channel++) grey = Math.max(grey, level(channel, i));
    for (let part = 0; part < 3; part++) data[4 * i + part] = channels === 3 ? level(part, i) : grey;
    data[4 * i + 3] = 255;
  });
}

// A matrix as an address: `colour(i)` is the packed RGBA of its number i.
export function shades(width, height, colour) {
  return pixels(width, height, (data, i) => { new Uint32Array(data.buffer, 4 * i, 1)[0] = colour(i); });
}

function pixels(width, height, set) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) set(image.data, i);
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

// A drawing in the units of an image, which fills it; `over` is drawn on it. Lines keep their widths.
export function stage(width, height, address, label, ...over) {
  return drawing(
    "svg",
    { class: "stage", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    drawing("image", { href: address, width, height, preserveAspectRatio: "none" }),
    ...over,
  );
}

// The place of a pointer in the units of a drawing.
export function within(svg, event) {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [point.x, point.y];
}
