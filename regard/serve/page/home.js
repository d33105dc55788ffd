// Every model that is at hand, by the families of the lectures.

import { element } from "../viewer/dom.js";
import * as api from "./api.js";
import { banner, glyph } from "./glyphs.js";
import { write } from "./link.js";

export async function home(root) {
  const [models, lessons] = [await api.models(), await api.lessons()];
  const families = [...new Set(models.map((about) => about.family))];
  const groups = families.map((family) => [family, models.filter((about) => about.family === family)]);
  root.append(
    element(
      "header",
      { class: "hero" },
      banner(),
      element("h1", {}, "Look at attention"),
      element("p", { class: "lead" }, "Every attention mechanism is the same three steps: score, normalize, sum. Only the definition of query, key, value, score and normalizer differs. Ask a model something, and see where it looked."),
      element(
        "p",
        { class: "row" },
        element("a", { class: "strong", href: "#/playground" }, "Move the weather stations"),
        element("a", { class: "plain", href: "#/principle" }, "One table of all systems"),
        element("a", { class: "plain", href: "?lecture#/playground" }, "Give the lecture"),
      ),
    ),
    element("section", { class: "family", "data-lessons": true }, element("h2", {}, "Without a trained model"), element("ul", { class: "cards" }, ...lessons.map(card))),
    ...groups.map(([family, members]) => group(family, members)),
    models.length ? "" : element("p", { class: "note" }, "No model is at hand. Train one, for instance with “regard train graph”, and start regard explore again."),
  );
}

function group(family, models) {
  return element(
    "section",
    { class: "family" },
    element("h2", {}, family),
    element("ul", { class: "cards" }, ...models.map(card)),
  );
}

function card(about) {
  return element(
    "li",
    {},
    element(
      "a",
      { class: "card", href: write(about.name, {}) },
      glyph(about),
      element("span", { class: "title" }, about.title),
      element("span", { class: "text" }, about.sentence),
      element("span", { class: "paper" }, [about.name, about.paper].filter(Boolean).join(" · ")),
    ),
  );
}
