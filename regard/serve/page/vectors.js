// Rows of numbers to edit: a field whose value is a list of lists. Vectors are cut after the first numbers that matter.

import { element } from "../viewer/dom.js";

const SHOWN = 8;

export function vectors({ id, label, maxItems = 1, change }) {
  let rows = [[0]];
  const grid = element("div", { class: "vectors", id, role: "group", "aria-label": label });

  function draw() {
    const wide = rows[0].length > SHOWN ? SHOWN / 2 : rows[0].length;
    const lines = rows.map((row, y) => element(
      "div",
      { class: "row" },
      ...row.slice(0, wide).map((value, x) => element("input", {
        type: "number",
        step: "any",
        value: Math.round(value * 1e4) / 1e4,
        "aria-label": `${label}, row ${y + 1}, number ${x + 1}`,
        on: { input: (event) => { if (Number.isFinite(event.target.valueAsNumber)) { row[x] = event.target.valueAsNumber; change(300); } } },
      })),
      row.length > wide && element("span", { class: "note" }, `… ${row.length} numbers`),
      rows.length > 1 && element("button", { type: "button", class: "plain small", "aria-label": `Remove row ${y + 1} of ${label}`, on: { click: () => { rows.splice(y, 1); draw(); change(300); } } }, "×"),
    ));
    const add = maxItems > rows.length && element("button", { type: "button", class: "plain small", on: { click: () => { rows.push(rows[0].map(() => 0)); draw(); change(300); } } }, "Add a row");
    grid.replaceChildren(...lines, add || "");
  }

  return { node: grid, read: () => rows.map((row) => [...row]), set: (value) => { rows = structuredClone(value ?? [[0]]); draw(); } };
}
