// Paper to draw on with mouse, pen or finger. What is drawn is lines of points [x, y] from 0 to 1, y downwards.

import { element } from "../viewer/dom.js";
import { onTheme } from "../viewer/theme.js";

const SIDE = 280; // pixels of the canvas, whatever it measures on the screen
const PEN = 20;
const NEAR = 0.012; // a point nearer than this to the last one is left out

export function pad({ id, label, change, signal, most = 40, longest = 400 }) {
  let drawn = [];
  let current = null;
  const canvas = element("canvas", { id, class: "pad", width: SIDE, height: SIDE, role: "img", tabindex: 0 });
  const clear = element("button", { type: "button", class: "plain", on: { click: () => { set([]); change(0); } } }, "Clear");
  const undo = element("button", { type: "button", class: "plain", on: { click: () => { set(drawn.slice(0, -1)); change(300); } } }, "Undo");
  const hint = element("p", { class: "hint", "aria-hidden": "true" }, "Draw here");
  const node = element("div", { class: "paper" }, element("div", { class: "sheet" }, canvas, hint), element("div", { class: "row" }, undo, clear));

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || drawn.length >= most) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    current = [place(event)];
    drawn.push(current);
    paint();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!current) return;
    for (const moved of event.getCoalescedEvents?.() ?? [event]) {
      const point = place(moved);
      const [x, y] = current.at(-1);
      if (Math.hypot(point[0] - x, point[1] - y) >= NEAR && current.length < longest) current.push(point);
    }
    paint();
  });
  for (const type of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(type, () => {
      if (!current) return;
      current = null;
      paint();
      change(700);
    });
  }
  // Keys: arrows move a pen, space puts it down and lifts it.
  const pen = { x: 0.5, y: 0.5, shown: false };
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!by && event.key !== " ") return;
    event.preventDefault();
    pen.shown = true;
    if (event.key === " ") {
      if (current) {
        current = null;
        change(700);
      } else if (drawn.length < most) {
        current = [[pen.x, pen.y]];
        drawn.push(current);
      }
    } else {
      pen.x = round(Math.min(1, Math.max(0, pen.x + by[0] * 0.04)));
      pen.y = round(Math.min(1, Math.max(0, pen.y + by[1] * 0.04)));
      if (current && current.length < longest) current.push([pen.x, pen.y]);
    }
    paint();
  });
  canvas.addEventListener("blur", () => {
    pen.shown = false;
    current = null;
    paint();
  });

  function place(event) {
    const box = canvas.getBoundingClientRect();
    const inside = (value) => round(Math.min(1, Math.max(0, value)));
    return [inside((event.clientX - box.left) / box.width), inside((event.clientY - box.top) / box.height)];
  }

  function paint() {
    const context = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    context.clearRect(0, 0, SIDE, SIDE);
    Object.assign(context, { lineWidth: PEN, lineCap: "round", lineJoin: "round", strokeStyle: style.color, fillStyle: style.color });
    for (const points of drawn) {
      context.beginPath();
      points.forEach(([x, y], i) => (i ? context.lineTo(x * SIDE, y * SIDE) : context.moveTo(x * SIDE, y * SIDE)));
      if (points.length === 1) context.lineTo(points[0][0] * SIDE, points[0][1] * SIDE);
      context.stroke();
    }
    if (pen.shown) {
      context.beginPath();
      context.arc(pen.x * SIDE, pen.y * SIDE, 6, 0, 7);
      Object.assign(context, { lineWidth: 2, strokeStyle: style.outlineColor });
      context.stroke();
    }
    const description = drawn.length ? `${drawn.length} line${drawn.length > 1 ? "s" : ""} drawn` : "empty";
    canvas.setAttribute("aria-label", `${label}: ${description}. Arrows move the pen, space puts it down and lifts it.`);
    hint.hidden = drawn.length > 0;
    clear.disabled = undo.disabled = drawn.length === 0;
  }

  function set(value) {
    drawn = Array.isArray(value) ? value.filter((points) => Array.isArray(points) && points.length) : [];
    current = null;
    paint();
  }

  onTheme(() => requestAnimationFrame(paint), signal);
  set([]);
  return { node, read: () => drawn, set };
}

function round(value) {
  return Math.round(value * 1000) / 1000;
}
