// What a spatial transformer does: the image with the grid that reads it, and what comes out. Pointing at a place of a
// crop shows where it was read.
//
// data: { image (C, height, width), grids (K, high, wide, 2) from −1 to 1, crops (K, C, high, wide) }

import { drawing, element } from "../dom.js";
import { picture, stage, within } from "../pixels.js";
import { register } from "../registry.js";

const LINES = 6; // of the grid each way, its edges included

register("rectified", (data, root, { signal }) => {
  const { image, grids, crops } = data;
  const [, height, width] = image.shape;
  const [count, high, wide] = grids.shape;
  const dot = drawing("circle", { class: "spot", r: 0.03 * width, visibility: "hidden" });
  const nets = Array.from({ length: count }, (_, k) => net(k)).flat();
  const input = stage(width, height, picture(image), "The image, and the grid that reads it", ...nets, dot);
  input.setAttribute("viewBox", reach().join(" "));
  const figures = Array.from({ length: count }, (_, k) => {
    const crop = stage(wide, high, picture(crops, k), count > 1 ? `Rectified by transformer ${k + 1}` : "Rectified");
    crop.classList.add(`colour${k % 4}`, "crop");
    crop.addEventListener("pointermove", (event) => {
      const [j, i] = within(crop, event).map(Math.floor);
      if (i < 0 || j < 0 || i >= high || j >= wide) return;
      const [x, y] = place(k, i, j);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y);
      dot.setAttribute("visibility", "visible");
    }, { signal });
    crop.addEventListener("pointerleave", () => dot.setAttribute("visibility", "hidden"), { signal });
    return element("figure", {}, crop, element("figcaption", {}, count > 1 ? `rectified ${k + 1}` : "rectified"));
  });
  root.append(
    element(
      "section",
      { class: "panel pair", "aria-label": "The image, its grid and what comes out" },
      element("figure", {}, input, element("figcaption", {}, "the image, and the grid that reads it")),
      ...figures,
    ),
    element("p", { class: "note" }, "Point at a place of what came out to see where it was read. The dot is the grid’s upper left corner."),
  );

  function place(k, i, j) {
    const at = 2 * ((k * high + i) * wide + j);
    return [((grids.values[at] + 1) / 2) * width, ((grids.values[at + 1] + 1) / 2) * height];
  }

  function net(k) {
    const line = (points, edge) =>
      drawing("polyline", { class: `net colour${k % 4}${edge ? " edge" : ""}`, points: points.map((point) => point.join(",")).join(" ") });
    const chosen = (size) => [...new Set(Array.from({ length: LINES }, (_, i) => Math.round((i * (size - 1)) / (LINES - 1))))];
    const across = chosen(high).map((i) => line(Array.from({ length: wide }, (_, j) => place(k, i, j)), i === 0 || i === high - 1));
    const down = chosen(wide).map((j) => line(Array.from({ length: high }, (_, i) => place(k, i, j)), j === 0 || j === wide - 1));
    const [x, y] = place(k, 0, 0);
    return [...across, ...down, drawing("circle", { class: `corner colour${k % 4}`, cx: x, cy: y, r: 0.025 * width })];
  }

  // The image and, up to half of it, what lies round it where grids reach out; square, so that nothing is stretched.
  function reach() {
    const edges = { left: 0, top: 0, right: width, bottom: height };
    const far = Math.max(width, height) / 2;
    for (let i = 0; i < grids.values.length; i += 2) {
      const [x, y] = [((grids.values[i] + 1) / 2) * width, ((grids.values[i + 1] + 1) / 2) * height];
      edges.left = Math.max(Math.min(edges.left, x - 1), -far);
      edges.right = Math.min(Math.max(edges.right, x + 1), width + far);
      edges.top = Math.max(Math.min(edges.top, y - 1), -far);
      edges.bottom = Math.min(Math.max(edges.bottom, y + 1), height + far);
    }
    const side = Math.max(edges.right - edges.left, edges.bottom - edges.top);
    return [(edges.left + edges.right - side) / 2, (edges.top + edges.bottom - side) / 2, side, side];
  }
});
