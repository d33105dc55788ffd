// A map of rows with the name of each row before it.

import { element } from "./dom.js";
import { visible } from "./text.js";

const LEAST = 8; // pixels of a row that can be named
const LONGEST = 8; // characters of a name

// `tape` is `pixels` high. Maps above each other get the same `names`, with `withNames` false where they have none.
export function labelled(tape, names, pixels, withNames = true) {
  const high = pixels / Math.max(names.length, 1);
  const shown = high < LEAST ? [] : names.map((name) => (name.trim() ? visible(name) : "␣"));
  const wide = shown.reduce((most, name) => Math.max(most, Math.min(name.length, LONGEST)), 0);
  const labels = withNames ? shown.map((name) => element("bdi", {}, name)) : [];
  const column = element("div", { class: "names", "aria-hidden": "true" }, ...labels);
  return element("div", { class: "labelled", vars: { "--names": `${wide + 0.5}ch`, "--size": `${Math.min(12, high - 1)}px` } }, column, tape);
}
