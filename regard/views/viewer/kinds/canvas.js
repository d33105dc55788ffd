// DRAW at work: the canvas after each step, the box that was written, and the box that was read in the image; or, where
// it classifies, the glimpses that it read. A box that reaches beyond the picture is dashed along its border.
//
// data: { canvas (T, C, height, width) | null, image (C, height, width) | null, patch (T, C, n, n) | null, read, write
//         (T, 4) | null: x, y of the centre in pixels from 0, side, σ }

import { drawing, element } from "../dom.js";
import { picture, stage } from "../pixels.js";
import { player } from "../player.js";
import { register } from "../registry.js";

const EDGE = 0.2; // pixels between the border and the line of a box that reaches beyond it

register("canvas", (data, root, { signal, announce, keyboard }) => {
  const { canvas, image, patch, read, write } = data;
  const images = canvas ?? patch;
  const [height, width] = (canvas ?? image).shape.slice(-2);
  const steps = images.shape[0];
  let time = null;

  const clock = player({
    noun: "step",
    signal,
    keyboard,
    change: (value) => { time = value; paint(); },
    stepped: () => announce(`step ${time + 1} of ${steps}`),
  });
  const field = element("section", { class: "panel pair", "aria-label": canvas ? "The canvas" : "The image and the glimpse" });
  const buttons = Array.from({ length: steps }, (_, t) => {
    const shown = stage(1, 1, picture(images, t), "");
    shown.classList.replace("stage", "seen");
    shown.setAttribute("aria-hidden", "true");
    return element("button", { type: "button", class: "thumb", "aria-label": `Step ${t + 1}`, on: { click: () => clock.go(t) } }, shown, `${t + 1}`);
  });
  root.append(
    element("div", { class: "bar" }, clock.node),
    field,
    element("section", { class: "panel", "aria-label": "All steps" }, element("div", { class: "strip", role: "group", "aria-label": "Steps" }, ...buttons)),
  );
  clock.reset(steps);
  const boxes = write ?? read;
  if (boxes) clock.go(opening());
  else paint();

  // The last step whose box lies within the picture, else the one with the smallest: there is something to see of it.
  function opening() {
    const sides = Array.from({ length: steps }, (_, t) => boxes.values[4 * t + 2]);
    const inside = sides.findLastIndex((side, t) => {
      const [x, y] = boxes.values.subarray(4 * t, 4 * t + 2);
      return [[x, width], [y, height]].every(([middle, room]) => middle + 0.5 - side / 2 >= 0 && middle + 0.5 + side / 2 <= room);
    });
    return inside >= 0 ? inside : sides.indexOf(Math.min(...sides));
  }

  function box(boxes, t, kind) {
    if (!boxes || time === null) return []; // at the end there is nothing left to do
    const [x, y, side, sigma] = boxes.values.subarray(4 * t, 4 * t + 4);
    const ends = [[x, width], [y, height]].map(([middle, room]) => {
      const whole = [middle + 0.5 - side / 2, middle + 0.5 + side / 2];
      return [whole, whole.map((end) => Math.min(Math.max(end, EDGE), room - EDGE))];
    });
    const beyond = ends.some(([whole, visible]) => whole.some((end, i) => end !== visible[i]));
    const [[left, right], [top, bottom]] = ends.map(([, visible]) => visible);
    const place = { x: left, y: top, width: right - left, height: bottom - top };
    const line = { class: `box ${kind}${beyond ? " beyond" : ""}`, "stroke-width": Math.min(Math.max(1.5 * sigma, 1.5), 8) };
    return [drawing("rect", { ...place, ...line })];
  }

  function paint() {
    const now = time ?? steps - 1;
    const shown = [];
    if (image) shown.push(captioned(stage(width, height, picture(image), "The image", ...box(read, now, "read")), read ? "the image, and where it is read" : "the image"));
    if (canvas) {
      const drawn = stage(width, height, picture(canvas, now), `The canvas after step ${now + 1}`, ...box(write, now, "write"));
      shown.push(captioned(drawn, `the canvas after step ${now + 1} of ${steps}${write && time !== null ? ", and where it is written" : ""}`));
    } else {
      shown.push(captioned(stage(1, 1, picture(patch, now), `Glimpse ${now + 1}`), `what is read in step ${now + 1} of ${steps}`));
    }
    field.replaceChildren(...shown);
    buttons.forEach((button, t) => {
      button.setAttribute("aria-pressed", time === t);
      button.classList.toggle("future", t > now);
    });
  }

  function captioned(node, text) {
    return element("figure", {}, node, element("figcaption", {}, text));
  }
});
