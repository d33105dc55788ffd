// The table of all systems, made by the server from their code.

import { element } from "../viewer/dom.js";
import * as api from "./api.js";
import { write } from "./link.js";

const COLUMNS = { query: "Query", key: "Key", value: "Value", score: "Score", normalizer: "Normalizer" };

export async function principle(root, { signal }) {
  const [{ systems }, models] = [await api.principle(), await api.models()];
  const filter = element("input", { type: "search", id: "filter", placeholder: "softmax, glimpse, memory …", autocomplete: "off" });
  const count = element("output", { class: "note", for: "filter" });
  const parts = [...new Set(systems.map((system) => system.part))];
  const groups = parts.map((part) => {
    const inside = systems.filter((system) => system.part === part);
    const head = element("tbody", { class: "part" }, element("tr", {}, element("th", { scope: "rowgroup", colspan: Object.keys(COLUMNS).length + 1 }, part || "Other systems")));
    return { head, bodies: inside.map((system) => ({ body: rows(system, models), text: JSON.stringify(system).toLowerCase() })) };
  });
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const { head, bodies } of groups) {
      for (const { body, text } of bodies) body.hidden = !words.every((word) => text.includes(word));
      const visible = bodies.filter(({ body }) => !body.hidden).length;
      head.hidden = visible === 0;
      left += visible;
    }
    count.textContent = `${left} of ${systems.length} systems`;
  };
  filter.addEventListener("input", show, { signal });
  show();
  root.append(
    element(
      "header",
      { class: "head" },
      element("h1", {}, "Same principle, different query, key, value"),
      element("p", { class: "lead" }, "Every system of the lectures, and what it takes for query, key, value, score and normalizer. Each declares this in its code, and a test compares it with what is recorded while the system runs."),
    ),
    element("div", { class: "row" }, element("label", { for: "filter" }, "Filter"), filter, count),
    element(
      "div",
      { class: "panel scroll", tabindex: 0, role: "region", "aria-label": "Table of systems" },
      element(
        "table",
        { class: "principle" },
        element("thead", {}, element("tr", {}, ...["System", ...Object.values(COLUMNS)].map((text) => element("th", { scope: "col" }, text)))),
        ...groups.flatMap(({ head, bodies }) => [head, ...bodies.map(({ body }) => body)]),
      ),
    ),
  );
}

function rows(system, models) {
  const arxiv = system.paper.match(/arXiv:([\d.]+)/)?.[1];
  // A paper that is another system with other settings has only the models of its own recipes.
  const trained = models.filter((candidate) => candidate.system === system.name && !system.like);
  const head = element(
    "th",
    { scope: "rowgroup", rowspan: Math.max(1, system.looks.length) },
    element("span", { class: "name" }, system.title),
    element("span", { class: "told" }, system.sentence.startsWith(`${system.title}: `) ? capital(system.sentence.slice(system.title.length + 2)) : system.sentence),
    element("span", { class: "paper" }, arxiv ? element("a", { href: `https://arxiv.org/abs/${arxiv}`, rel: "noreferrer" }, system.paper) : system.paper),
    element("span", { class: "paper" }, system.file ? element("a", { href: system.source }, system.file) : "not built yet"),
    trained.length > 0 && element("span", { class: "try" }, "Try it: ", ...trained.flatMap(({ name }, i) => [i ? ", " : "", element("a", { href: write(name, {}) }, name)])),
    !trained.length && system.recipes.length > 0 && element("span", { class: "paper" }, "No trained model here; ", element("code", {}, `regard train ${system.recipes[0]}`), " makes one."),
  );
  const cells = (look) => Object.entries(COLUMNS).map(([key, label]) => element("td", { "data-label": label, class: key }, element("span", {}, look[key], key === "query" && element("span", { class: "where", title: "Its name in the code" }, ...broken(look.where)))));
  const none = system.like || "No attention: what the others are compared with.";
  const cellsOfLooks = system.looks.length ? system.looks.map(cells) : [[element("td", { class: "none", colspan: Object.keys(COLUMNS).length }, none)]];
  return element("tbody", { "data-system": system.name }, ...cellsOfLooks.map((cellsOfLook, index) => element("tr", {}, index === 0 && head, ...cellsOfLook)));
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

// A name such as encoder.layers.*.own may be broken after its dots.
function broken(text) {
  return text.split(/(?<=\.)(?=\S)/).flatMap((piece, index) => (index ? [element("wbr"), piece] : [piece]));
}
