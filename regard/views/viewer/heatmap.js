// The heat map: target words down, source words across. Only what is in sight is drawn, so long texts stay quick:
// the browser scrolls an empty box of the full size, and a canvas stays in its corner and shows the part in view.

import { drawing, element, iconButton } from "./dom.js";
import { percent, visible } from "./text.js";
import { onTheme, ramp } from "./theme.js";

const SMALLEST = 2; // pixels of a cell
const LARGEST = 56;
const LEANING = 19; // pixels of a cell above which leaning labels do not touch
const LONGEST = 150; // pixels of a label

// `rescale(full)` is called when a reader fixes the colours to 100 %, or lets them follow the largest weight.
export function heatmap({ columns, names: sides, point, pin, rescale, signal }) {
  const canvas = element("canvas", { role: "img" });
  const space = element("div", { class: "space" }, canvas);
  const host = element(
    "div",
    { class: "map", tabindex: 0, role: "group", "aria-label": "Heat map; arrow keys move from cell to cell, Ctrl and the wheel zoom" },
    space,
  );
  const zoomed = (by) => () => enlarge(by, host.clientWidth / 2, host.clientHeight / 2);
  const scale = element("canvas", { class: "scale", width: 256, height: 1, "aria-hidden": "true" });
  const most = element("span", {});
  const full = element("input", { type: "checkbox", on: { change: () => rescale(full.checked) } });
  const fixed = element("label", { class: "fixed", hidden: true }, full, "scale to 100 %");
  const legend = element("div", { class: "legend" }, element("span", {}, "0"), scale, most, fixed);
  const tools = element(
    "div",
    { class: "tools", role: "group", "aria-label": "Zoom" },
    iconButton("minus", "Smaller cells", zoomed(1 / 1.4)),
    iconButton("fit", "Cells that fit", zoomed(0)),
    iconButton("plus", "Larger cells", zoomed(1.4)),
  );
  const node = element("div", { class: "heat" }, host, element("div", { class: "under" }, legend, tools));

  const names = { columns: columns.map(visible), rows: [] };
  const context = canvas.getContext("2d");
  const small = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  let zoom = 1;
  let shown = null;
  let measures = null;
  let colours = ramp();
  let pending = false;
  let drag = null;
  let family = "sans-serif";

  new ResizeObserver(() => layout()).observe(node);
  onTheme(() => {
    colours = ramp();
    legendColours();
    soon();
  }, signal);
  host.addEventListener("scroll", soon, { signal });
  host.addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(under(event)), { signal });
  host.addEventListener("pointerleave", () => point(null), { signal });
  host.addEventListener("click", (event) => !drag?.moved && under(event) && pin(under(event)), { signal });
  host.addEventListener("pointerdown", grab, { signal });
  host.addEventListener("pointermove", pull, { signal });
  host.addEventListener("wheel", wheel, { signal, passive: false });
  host.addEventListener("keydown", keys, { signal });
  host.addEventListener("blur", () => point(null), { signal });
  legendColours();

  function legendColours() {
    const image = new ImageData(256, 1);
    new Uint32Array(image.data.buffer).set(colours.packed);
    scale.getContext("2d").putImageData(image, 0, 0);
  }

  // Larger or smaller cells round a place in view; 0 for cells that fit.
  function enlarge(by, x, y) {
    if (!measures) return;
    const { left, top } = measures;
    const [s, t] = [(host.scrollLeft + x - left) / measures.cell, (host.scrollTop + y - top) / measures.cell];
    zoom = by === 0 ? 1 : Math.min(Math.max(zoom * by, 0.05), 8);
    layout();
    host.scrollLeft = s * measures.cell + measures.left - x;
    host.scrollTop = t * measures.cell + measures.top - y;
  }

  // With Ctrl, which is also what a pinch on a touchpad sends.
  function wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = host.getBoundingClientRect();
    enlarge(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }

  // A mouse pulls the map along.
  function grab(event) {
    drag = event.pointerType === "mouse" && event.button === 0 ? { x: event.clientX, y: event.clientY, moved: false } : null;
  }

  function pull(event) {
    if (!drag || !(event.buttons & 1)) return;
    const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(x, y) < 5) return;
    host.scrollLeft -= x;
    host.scrollTop -= y;
    drag = { x: event.clientX, y: event.clientY, moved: true };
  }

  function font(size, bold) {
    return `${bold ? "600 " : ""}${size}px ${family}`;
  }

  // Sizes of cells and margins for the available width.
  function layout() {
    if (!shown || !node.clientWidth) return;
    const { rows, columns: count } = shown.matrix;
    family = getComputedStyle(node).fontFamily;
    context.font = font(13, true);
    const widest = (list) => Math.min(LONGEST, list.reduce((most, text) => Math.max(most, context.measureText(text).width), 0));
    const left = Math.ceil(widest(names.rows.slice(0, 3000))) + 14;
    const name = widest(names.columns.slice(0, 3000));
    const room = node.clientWidth - left - 4;
    const fitting = room / count;
    let cell = Math.min(Math.max(fitting, 15), 52, Math.max(15, 600 / Math.max(1, rows)));
    if (fitting >= name + 10 && name + 10 <= 64) cell = Math.max(cell, name + 10);
    else if (cell >= LEANING) cell = Math.max(LEANING, Math.min(cell, (room - Math.SQRT1_2 * name) / count));
    cell = Math.min(Math.max(cell * zoom, SMALLEST), LARGEST);
    if (cell > 4) cell = Math.floor(cell);
    // Source words lie flat where there is room, lean where that is too little, and else stand.
    const angle = name + 8 <= cell ? 0 : cell >= LEANING ? Math.PI / 4 : Math.PI / 2;
    const top = angle ? Math.ceil(Math.sin(angle) * name) + 20 : 28;
    const spill = Math.ceil(Math.cos(angle) * (angle ? name : 0)) + 4;
    const wide = left + count * cell + spill;
    const high = top + rows * cell + 4;
    measures = { size: cell >= 15 ? 13 : 11, cell, angle, left, top, wide, high };
    space.style.width = `${wide}px`;
    space.style.height = `${high}px`;
    host.style.height = `${Math.min(high, Math.max(260, innerHeight * 0.72)) + (wide > node.clientWidth ? 14 : 0)}px`;
    draw();
  }

  function soon() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      draw();
    });
  }

  function draw() {
    if (!measures?.cell) return;
    const { cell, left, top } = measures;
    const { matrix, active, time } = shown;
    const [wide, high] = [Math.min(host.clientWidth, measures.wide), Math.min(host.clientHeight, measures.high)];
    const sharp = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(wide * sharp) || canvas.height !== Math.round(high * sharp)) {
      canvas.width = Math.round(wide * sharp);
      canvas.height = Math.round(high * sharp);
      canvas.style.width = `${wide}px`;
      canvas.style.height = `${high}px`;
    }
    const style = getComputedStyle(node);
    const ink = style.getPropertyValue("--ink");
    const muted = style.getPropertyValue("--muted");
    const accent = style.getPropertyValue(active?.side === "source" ? "--source" : "--target");
    const [x0, y0] = [left - host.scrollLeft, top - host.scrollTop];
    const first = { t: Math.max(0, Math.floor((top - y0) / cell)), s: Math.max(0, Math.floor((left - x0) / cell)) };
    const last = {
      t: Math.min(matrix.rows, Math.ceil((high - y0) / cell)),
      s: Math.min(matrix.columns, Math.ceil((wide - x0) / cell)),
    };
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    context.clearRect(0, 0, wide, high);

    context.save();
    context.beginPath();
    context.rect(left, top, wide - left, high - top);
    context.clip();
    cells(x0, y0, first, last);
    if (active) crosshair(x0, y0, active, accent);
    context.restore();

    const crossed = {
      t: active?.side === "target" ? active.index : active?.other,
      s: active?.side === "source" ? active.index : active?.other,
    };
    const every = Math.max(1, Math.ceil(15 / cell));
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(0, top - 2, left, high - top + 2);
    context.clip();
    context.textAlign = "right";
    for (const t of labelled(first.t, last.t, every, crossed.t)) {
      context.font = font(measures.size, t === crossed.t);
      context.fillStyle = t === crossed.t ? ink : muted;
      context.globalAlpha = time !== null && t > time ? 0.35 : 1;
      context.fillText(cut(names.rows[t]), left - 8, y0 + (t + 0.5) * cell);
    }
    context.restore();
    context.save();
    context.beginPath();
    context.rect(left - (measures.angle ? 6 : 0), 0, wide, top);
    context.clip();
    for (const s of labelled(first.s, last.s, every, crossed.s)) {
      context.font = font(measures.size, s === crossed.s);
      context.fillStyle = s === crossed.s ? ink : muted;
      context.save();
      context.translate(x0 + (s + 0.5) * cell, top - 8);
      context.textAlign = measures.angle ? "left" : "center";
      if (measures.angle) context.rotate(-measures.angle);
      else context.translate(0, -6);
      context.fillText(cut(names.columns[s]), 0, 0);
      context.restore();
    }
    context.restore();
    if (active?.other !== undefined) tip(x0, y0, crossed, wide, high, style);
  }

  // What is in view as shapes, for a file; where cells are too many for that, pixels do.
  canvas.drawing = () => {
    const { cell, left, top, angle, size } = measures;
    if (cell < 9) return null;
    const { matrix, time } = shown;
    const [wide, high] = [parseFloat(canvas.style.width), parseFloat(canvas.style.height)];
    const [x0, y0] = [left - host.scrollLeft, top - host.scrollTop];
    const inside = (x, y) => x >= left - 1 && y >= top - 1 && x + cell <= wide + 1 && y + cell <= high + 1;
    const shapes = [];
    const text = (x, y, anchor, words, more) =>
      shapes.push(drawing("text", { x, y, "text-anchor": anchor, "font-family": family, "font-size": size, ...more }, words));
    const ink = getComputedStyle(node).getPropertyValue("--muted");
    for (let t = 0; t < matrix.rows; t++) {
      const y = y0 + t * cell;
      if (y >= top - 1 && y + cell <= high + 1) text(left - 8, y + cell / 2 + 0.35 * size, "end", cut(names.rows[t]), { fill: ink });
      for (let s = 0; s < matrix.columns; s++) {
        const x = x0 + s * cell;
        if (!inside(x, y)) continue;
        const level = time !== null && t > time ? 0 : Math.min(255, Math.round((255 * matrix.at(t, s)) / matrix.top));
        shapes.push(drawing("rect", { x: x + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1, fill: colours.text[level] }));
        if (cell >= 34 && level >= 13) text(x + cell / 2, y + cell / 2 + 4, "middle", `${Math.round(100 * matrix.at(t, s))}`, { fill: colours.over[level], "font-size": 11 });
      }
    }
    for (let s = 0; s < matrix.columns; s++) {
      const x = x0 + (s + 0.5) * cell;
      if (x < left || x > wide) continue;
      const lean = angle ? { transform: `rotate(${(-180 * angle) / Math.PI} ${x} ${top - 8})` } : {};
      text(x, top - 8 + (angle ? 4 : -2), angle ? "start" : "middle", cut(names.columns[s]), { fill: ink, ...lean });
    }
    return shapes;
  };

  // The two words and the weight of the cell in focus, beside it.
  function tip(x0, y0, { t, s }, wide, high, style) {
    const { cell, left, top } = measures;
    const text = `${cut(names.rows[t])} → ${cut(names.columns[s])}   ${percent(shown.matrix.at(t, s))}`;
    context.font = font(13, false);
    const size = { x: context.measureText(text).width + 20, y: 28 };
    let [x, y] = [x0 + (s + 1) * cell + 8, y0 + (t + 1) * cell + 8];
    if (x + size.x > wide - 2) x = Math.max(2, x0 + s * cell - size.x - 8);
    if (y + size.y > high - 2) y = y0 + t * cell - size.y - 8;
    if (x0 + s * cell < left - cell || y0 + t * cell < top - cell) return; // scrolled away
    context.fillStyle = style.getPropertyValue("--panel");
    context.strokeStyle = style.getPropertyValue("--muted");
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(x, y, size.x, size.y, 7);
    context.fill();
    context.stroke();
    context.fillStyle = style.getPropertyValue("--ink");
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.direction = "ltr";
    context.fillText(text, x + 10, y + size.y / 2 + 0.5);
  }

  // Every nth label, and that of the active row or column instead of its neighbours.
  function labelled(from, to, every, active) {
    const indices = [];
    for (let i = Math.ceil(from / every) * every; i < to; i += every) {
      if (active === undefined || Math.abs(i - active) >= every) indices.push(i);
    }
    if (active >= from && active < to) indices.push(active);
    return indices;
  }

  function cells(x0, y0, first, last) {
    const { cell } = measures;
    const { matrix, time } = shown;
    const [wide, high] = [last.s - first.s, last.t - first.t];
    if (wide <= 0 || high <= 0) return;
    const factor = 255 / matrix.top;
    if (cell < 9) {
      // One pixel each, then enlarged at once.
      if (small.canvas.width < wide || small.canvas.height < high) {
        small.canvas.width = wide;
        small.canvas.height = high;
      }
      const image = small.createImageData(wide, high);
      const pixels = new Uint32Array(image.data.buffer);
      for (let t = 0; t < high; t++) {
        const start = (first.t + t) * matrix.columns + first.s;
        const veiled = time !== null && first.t + t > time;
        for (let s = 0; s < wide; s++) {
          pixels[t * wide + s] = colours.packed[veiled ? 0 : Math.min(255, Math.round(matrix.values[start + s] * factor))];
        }
      }
      small.putImageData(image, 0, 0);
      context.imageSmoothingEnabled = false;
      context.drawImage(small.canvas, 0, 0, wide, high, x0 + first.s * cell, y0 + first.t * cell, wide * cell, high * cell);
      return;
    }
    const numbers = cell >= 34;
    context.textAlign = "center";
    context.textBaseline = "middle";
    if (numbers) context.font = font(11, false);
    for (let t = first.t; t < last.t; t++) {
      context.globalAlpha = time !== null && t > time ? 0.25 : 1;
      for (let s = first.s; s < last.s; s++) {
        const weight = matrix.at(t, s);
        const level = time !== null && t > time ? 0 : Math.min(255, Math.round(weight * factor));
        const [x, y] = [x0 + s * cell, y0 + t * cell];
        context.fillStyle = colours.text[level];
        context.fillRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
        if (numbers && level >= 13) {
          context.fillStyle = colours.over[level];
          context.fillText(Math.round(100 * weight), x + cell / 2, y + cell / 2 + 0.5);
        }
      }
    }
    context.globalAlpha = 1;
  }

  function crosshair(x0, y0, active, accent) {
    const { cell } = measures;
    context.strokeStyle = accent;
    context.lineWidth = 2;
    const across = (t) => context.strokeRect(x0, y0 + t * cell, shown.matrix.columns * cell, cell);
    const down = (s) => context.strokeRect(x0 + s * cell, y0, cell, shown.matrix.rows * cell);
    if (active.side === "target") across(active.index);
    else down(active.index);
    if (active.other !== undefined) {
      const [t, s] = active.side === "target" ? [active.index, active.other] : [active.other, active.index];
      context.lineWidth = 3;
      context.strokeRect(x0 + s * cell + 1.5, y0 + t * cell + 1.5, cell - 3, cell - 3);
    }
  }

  const cuts = new Map();
  function cut(text) {
    if (!cuts.has(text)) {
      let letters = [...text];
      context.save();
      context.font = font(13, true);
      if (context.measureText(text).width > LONGEST) {
        while (letters.length && context.measureText(`${letters.join("")}…`).width > LONGEST) letters = letters.slice(0, -1);
        letters.push("…");
      }
      context.restore();
      cuts.set(text, letters.join(""));
    }
    return cuts.get(text);
  }

  // The cell under the pointer.
  function under(event) {
    if (!measures) return null;
    const box = host.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - host.clientLeft, event.clientY - box.top - host.clientTop];
    const { left, top, cell } = measures;
    const s = Math.floor((x + host.scrollLeft - left) / cell);
    const t = Math.floor((y + host.scrollTop - top) / cell);
    const inside = { t: t >= 0 && t < shown.matrix.rows, s: s >= 0 && s < shown.matrix.columns };
    if (y < top && x >= left && inside.s) return { side: "source", index: s };
    if (x < left && y >= top && inside.t) return { side: "target", index: t };
    if (x < left || y < top || !inside.t || !inside.s) return null;
    return { side: "target", index: t, other: s };
  }

  function keys(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const by = moves[event.key];
    if (!by || !shown.matrix.rows || !shown.matrix.columns) return;
    event.preventDefault();
    event.stopPropagation();
    const { active, matrix } = shown;
    let [t, s] = [0, 0];
    if (active) {
      const other = active.other ?? 0;
      [t, s] = active.side === "target" ? [active.index, other] : [other, active.index];
      t = Math.min(Math.max(t + by[0], 0), matrix.rows - 1);
      s = Math.min(Math.max(s + by[1], 0), matrix.columns - 1);
    }
    const { left, top, cell } = measures;
    const [x, y] = [left + s * cell, top + t * cell];
    if (x - left < host.scrollLeft) host.scrollLeft = x - left;
    if (x + cell > host.scrollLeft + host.clientWidth) host.scrollLeft = x + cell - host.clientWidth;
    if (y - top < host.scrollTop) host.scrollTop = y - top;
    if (y + cell > host.scrollTop + host.clientHeight) host.scrollTop = y + cell - host.clientHeight;
    point({ side: "target", index: t, other: s, keyboard: true });
  }

  function paint(matrix, active, time) {
    const changed = !shown || shown.matrix !== matrix;
    shown = { matrix, active, time };
    if (changed) {
      most.textContent = percent(matrix.top);
      fixed.hidden = matrix.top >= 1 && !full.checked;
      canvas.setAttribute("aria-label", `Weights of ${matrix.rows} ${sides.target.toLowerCase()} words over ${matrix.columns} ${sides.source.toLowerCase()} words`);
      layout();
    } else {
      soon();
    }
  }

  return { node, paint, setRows: (tokens) => { names.rows = tokens.map(visible); } };
}
