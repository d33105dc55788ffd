// What is seen in an element as one SVG drawing that stands alone: texts stay texts, boxes boxes and drawings drawings;
// a canvas comes as its property `drawing()` gives it, else as pixels. Controls are left out.

import { drawing, element } from "./dom.js";

const LEFT_OUT = "button:not(.thumb), select, input, .bar, .question, .tools, .keys, .unseen";
const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity", "vector-effect"];
const TYPE = ["font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline"];

export function snapshot(root) {
  const seen = [...root.children].filter((child) => !child.matches(LEFT_OUT)).map((child) => child.getBoundingClientRect());
  const [left, top] = [Math.min(...seen.map((box) => box.left)), Math.min(...seen.map((box) => box.top))];
  const around = {
    left,
    top,
    width: Math.max(...seen.map((box) => box.right)) - left,
    height: Math.max(...seen.map((box) => box.bottom)) - top,
  };
  const [x0, y0] = [around.left - 12, around.top - 12];
  const [width, height] = [Math.ceil(around.width) + 24, Math.ceil(around.height) + 24];
  const paper = getComputedStyle(root).getPropertyValue("--page");
  const sheet = drawing("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  sheet.append(drawing("rect", { width, height, fill: paper }));
  walk(root, sheet);
  return sheet;

  function walk(node, parent) {
    if (node.nodeType === Node.TEXT_NODE) return letters(node, parent);
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(LEFT_OUT)) return;
    const style = getComputedStyle(node);
    if (style.display === "none" || style.visibility === "hidden" || style.opacity === "0") return;
    const box = node.getBoundingClientRect();
    const place = { x: box.left - x0, y: box.top - y0, width: box.width, height: box.height };
    if (node instanceof SVGSVGElement) return vector(node, place, parent);
    if (node instanceof HTMLCanvasElement) return pixels(node, place, parent);
    const group = style.opacity === "1" ? parent : parent.appendChild(drawing("g", { opacity: style.opacity }));
    background(style, place, group);
    const scrolls = node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1;
    const cut = scrolls && style.overflow !== "visible" && style.overflow !== "clip";
    const inside = cut
      ? group.appendChild(drawing("svg", { ...place, viewBox: `${place.x} ${place.y} ${place.width} ${place.height}` }))
      : group;
    for (const child of node.childNodes) walk(child, inside);
    after(node, place, inside);
  }

  function background(style, place, parent) {
    const { backgroundColor: fill, boxShadow: shadow } = style;
    const border = parseFloat(style.borderTopWidth);
    const ring = /^(rgba?\([^)]*\)|color\([^)]*\)|oklab\([^)]*\)) 0px 0px 0px ([\d.]+)px$/.exec(shadow);
    const stroke = border ? { stroke: rgb(style.borderTopColor), "stroke-width": border } : ring ? { stroke: rgb(ring[1]), "stroke-width": ring[2] } : {};
    if (clear(fill) && !("stroke" in stroke)) return;
    const rx = Math.min(parseFloat(style.borderTopLeftRadius) || 0, place.height / 2);
    parent.append(drawing("rect", { ...place, rx, fill: clear(fill) ? "none" : rgb(fill), ...stroke }));
  }

  // A text node, a line of it at a time.
  function letters(node, parent) {
    const text = node.data;
    if (!text.trim()) return;
    const style = getComputedStyle(node.parentElement);
    const range = document.createRange();
    const lines = [];
    for (let i = 0; i < text.length; i++) {
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      const box = range.getClientRects()[0];
      if (!box) continue;
      const line = lines.at(-1);
      if (line && Math.abs(line.top - box.top) < box.height / 2) {
        line.text += text[i];
        line.left = Math.min(line.left, box.left);
        line.right = Math.max(line.right, box.right);
      } else {
        lines.push({ text: text[i], top: box.top, bottom: box.bottom, left: box.left, right: box.right });
      }
    }
    for (const line of lines) {
      if (line.text.trim()) write(line, style, parent);
    }
  }

  function write({ text, top, bottom, left, right }, style, parent) {
    const size = parseFloat(style.fontSize);
    const [x, y] = [(left + right) / 2 - x0, (top + bottom) / 2 - y0 + 0.35 * size];
    const shown = style.textTransform === "uppercase" ? text.toUpperCase() : text;
    const attributes = { x, y, "text-anchor": "middle", fill: rgb(style.color), "letter-spacing": style.letterSpacing };
    for (const name of TYPE.slice(0, 4)) attributes[name] = style.getPropertyValue(name);
    parent.append(drawing("text", attributes, shown.trim()));
  }

  // The only content that style sheets add: the share of a word, above or below it.
  function after(node, place, parent) {
    const style = getComputedStyle(node, "::after");
    if (!node.dataset.share || style.content === "none") return;
    const size = parseFloat(style.fontSize);
    const above = style.bottom !== "auto" && parseFloat(style.bottom) > 0;
    const y = above ? place.y - 4 : place.y + place.height + 4 + 0.85 * size;
    const at = { x: place.x + place.width / 2, y, "text-anchor": "middle", "font-size": size, fill: rgb(style.color) };
    parent.append(drawing("text", { ...at, "font-family": style.fontFamily }, node.dataset.share));
  }

  function vector(node, place, parent) {
    const copy = node.cloneNode(true);
    const [from, to] = [[node, ...node.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
    from.forEach((original, index) => {
      const style = getComputedStyle(original);
      const target = to[index];
      const text = original instanceof SVGTextContentElement;
      for (const name of text ? [...PAINT, ...TYPE] : PAINT) target.setAttribute(name, paint(name, style));
      if (original instanceof SVGImageElement) target.setAttribute("image-rendering", style.imageRendering);
      for (const name of ["class", "style", "tabindex", "role"]) target.removeAttribute(name);
    });
    for (const [name, value] of Object.entries(place)) copy.setAttribute(name, value);
    copy.setAttribute("overflow", getComputedStyle(node).overflow);
    parent.append(copy);
  }

  function pixels(node, place, parent) {
    if (!node.width || !node.height) return;
    const drawn = node.drawing?.();
    if (drawn) {
      parent.append(drawing("svg", { ...place, viewBox: `0 0 ${place.width} ${place.height}` }, ...drawn));
      return;
    }
    parent.append(drawing("image", { ...place, href: node.toDataURL(), "image-rendering": "pixelated" }));
  }
}

function paint(name, style) {
  const value = style.getPropertyValue(name);
  return name === "fill" || name === "stroke" ? (value === "none" ? value : rgb(value)) : value;
}

function clear(colour) {
  return colour === "transparent" || /^rgba\(.*, 0\)$/.test(colour);
}

// Mixed colours are computed in spaces that other programs do not read.
const reader = document.createElement("canvas");
reader.width = reader.height = 1;
function rgb(colour) {
  if (/^rgba?\(/.test(colour)) return colour;
  const context = reader.getContext("2d", { willReadFrequently: true });
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
  return a === 255 ? `rgb(${r}, ${g}, ${b})` : `rgba(${r}, ${g}, ${b}, ${(a / 255).toFixed(3)})`;
}

// The drawing as a file.
export function svgFile(sheet) {
  return new Blob([new XMLSerializer().serializeToString(sheet)], { type: "image/svg+xml" });
}

export async function pngFile(sheet, scale = 2) {
  const [width, height] = [Number(sheet.getAttribute("width")), Number(sheet.getAttribute("height"))];
  const address = URL.createObjectURL(svgFile(sheet));
  try {
    const image = element("img", { width, height });
    await new Promise((done, failed) => {
      image.onload = done;
      image.onerror = () => failed(new Error("the browser could not draw the picture"));
      image.src = address;
    });
    const canvas = element("canvas", { width: width * scale, height: height * scale });
    canvas.getContext("2d").drawImage(image, 0, 0, width * scale, height * scale);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}
