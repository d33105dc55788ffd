// Names with their shares as bars, in the order given.

import { element } from "./dom.js";
import { direction, percent, visible } from "./text.js";

// `items` are {name, weight, marked?}; `top` is the weight of a full bar; `side` the colour, target or source.
export function bars(items, top, side = "target") {
  const rows = items.map(({ name, weight, marked }) =>
    element(
      "li",
      { class: marked && "other", vars: { "--share": Math.min(1, weight / (top || 1)).toFixed(3) } },
      element("bdi", { dir: direction([name]), title: name }, visible(name)),
      element("span", { class: "bar-line", "aria-hidden": "true" }, element("span", {})),
      element("span", { class: "share" }, percent(weight)),
    ),
  );
  return element("ol", { class: `bars ${side}` }, ...rows);
}
