// The table of all systems, made by the server from their code.

import { element } from "../viewer/dom.js";
import * as api from "./api.js";
import { write } from "./link.js";

const COLUMNS = { where: "Where", query: "Query", key: "Key", value: "Value", score: "Score", normalizer: "Normalizer" };

export async function principle(root, { signal }) {
  const [{ systems }, models] = [await api.principle(), await api.models()];
  const filter = element("input", { type: "search", id: "filter", placeholder: "softmax, glimpse, memory …", autocomplete: "off" });
  const count = element("output", { class: "note", for: "filter" });
  const bodies = systems.map((system) => {
    const rows = system.looks.map((look, index) => row(system, look, index, models.filter((each) => each.system === system.name)));
    const text = JSON.stringify(system).toLowerCase();
    return [element("tbody", {}, ...rows), text];
  });
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const [body, text] of bodies) {
      body.hidden = !words.every((word) => text.includes(word));
      left += body.hidden ? 0 : 1;
    }
    count.textContent = `${left} of ${bodies.length} systems`;
  };
  filter.addEventListener("input", show, { signal });
  show();
  root.append(
    element(
      "header",
      { class: "head" },
      element("h1", {}, "Same principle, different query, key, value"),
      element("p", { class: "lead" }, "Each system declares its attentions in its code, and a test compares that with what is recorded while it runs. This table is that declaration."),
    ),
    element("div", { class: "row" }, element("label", { for: "filter" }, "Filter"), filter, count),
    element(
      "div",
      { class: "panel scroll", tabindex: 0, role: "region", "aria-label": "Table of systems" },
      element(
        "table",
        { class: "principle" },
        element("thead", {}, element("tr", {}, ...["System", ...Object.values(COLUMNS)].map((text) => element("th", { scope: "col" }, text)))),
        ...bodies.map(([body]) => body),
      ),
    ),
  );
}

function row(system, look, index, models) {
  const arxiv = system.paper.match(/arXiv:([\d.]+)/)?.[1];
  const head = index === 0 && element(
    "th",
    { scope: "rowgroup", rowspan: system.looks.length },
    element("span", { class: "name" }, system.name),
    element("span", { class: "paper" }, arxiv ? element("a", { href: `https://arxiv.org/abs/${arxiv}`, rel: "noreferrer" }, system.paper) : system.paper),
    element("span", { class: "paper" }, `regard/systems/${system.name}.py`),
    element("span", { class: "paper" }, ...(models.length ? models.flatMap(({ name }, i) => [i ? ", " : "Try: ", element("a", { href: write(name, {}) }, name)]) : ["no trained model here"])),
  );
  const cells = Object.entries(COLUMNS).map(([key, label]) => element("td", { "data-label": label, class: key }, ...broken(look[key])));
  return element("tr", {}, head, ...cells);
}

// A name such as encoder.layers.*.own may be broken after its dots.
function broken(text) {
  return text.split(/(?<=\.)(?=\S)/).flatMap((piece, index) => (index ? [element("wbr"), piece] : [piece]));
}
