// A table of texts; a cell with a share between 0 and 1 is shaded.
//
// data: { columns: [text], cells: [[text]], shades: [[number | null]] }

import { element } from "../dom.js";
import { register } from "../registry.js";
import { onTheme, ramp } from "../theme.js";

register("table", (data, root, { signal }) => {
  const shaded = [];
  const rows = data.cells.map((row, y) => element("tr", {}, ...row.map((text, x) => {
    const cell = element(x ? "td" : "th", x ? {} : { scope: "row" }, text);
    const share = data.shades[y]?.[x];
    if (typeof share === "number") {
      cell.classList.add("shade");
      shaded.push([cell, share]);
    }
    return cell;
  })));
  const head = data.columns.map((text) => (text ? element("th", { scope: "col" }, text) : element("td", {})));
  root.append(
    element(
      "section",
      { class: "panel scrolls", tabindex: 0, "aria-label": "Table", role: "region" },
      element("table", { class: "table" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)),
    ),
  );
  colour();
  onTheme(colour, signal);

  function colour() {
    const colours = ramp();
    for (const [cell, share] of shaded) {
      const level = Math.round(255 * Math.min(1, Math.max(0, share)));
      cell.style.background = colours.text[level];
      cell.style.color = colours.over[level];
    }
  }
});
