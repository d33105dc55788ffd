// A node among those it attends to: the thicker the line, the larger the weight. A click on a neighbour goes there.
//
// data: { index (2, E): source and target of each edge, weights (E, H), node, names: [text] | null, kinds: [number] |
//         null, classes: [name] | null }

import { bars } from "../bars.js";
import { choice, drawing, element, iconButton } from "../dom.js";
import { register } from "../registry.js";
import { percent, visible } from "../text.js";

const MOST = 16; // neighbours in the picture
const COLOURS = 8;

register("graph", (data, root, { announce }) => {
  const { index, weights, kinds, classes } = data;
  const [edges, heads] = weights.shape;
  const into = new Map(); // node → its edges
  const out = new Map();
  for (let edge = 0; edge < edges; edge++) {
    const [source, target] = [index.values[edge], index.values[edges + edge]];
    if (!into.has(target)) into.set(target, []);
    if (!out.has(source)) out.set(source, []);
    into.get(target).push(edge);
    out.get(source).push(edge);
  }
  const path = [data.node];
  let head = null;

  const back = iconButton("back", "Back to the node before", () => { path.pop(); paint(true); });
  const field = element("section", { class: "panel ego", "aria-label": "The node and its neighbours" });
  const outgoing = element("div", { class: "looks" });
  const incoming = element("div", { class: "looks" });
  const legend = element("p", { class: "classes" });
  root.append(
    element(
      "div",
      { class: "bar" },
      back,
      heads > 1 && choice("Head", ["mean", ...Array.from({ length: heads }, (_, i) => `${i + 1}`)], 0, (chosen) => { head = chosen ? chosen - 1 : null; paint(); }),
      element("span", { class: "note" }, "A click on a neighbour, or Enter, goes there."),
    ),
    element(
      "div",
      { class: "split" },
      element("div", { class: "aside" }, field, legend),
      element(
        "div",
        { class: "aside" },
        element("section", { class: "panel", "aria-label": "Looks at" }, outgoing),
        element("section", { class: "panel", "aria-label": "Is looked at by" }, incoming),
      ),
    ),
  );
  paint();

  function weight(edge) {
    if (head !== null) return weights.values[edge * heads + head] * weights.scale;
    let sum = 0;
    for (let h = 0; h < heads; h++) sum += weights.values[edge * heads + h] * weights.scale;
    return sum / heads;
  }

  function name(node) {
    return data.names ? visible(data.names[node]) : `${node}`;
  }

  function ranked(edgeList, end) {
    return (edgeList ?? []).map((edge) => ({ node: index.values[end * edges + edge], weight: weight(edge) })).sort((a, b) => b.weight - a.weight);
  }

  function go(node) {
    path.push(node);
    paint(true);
    announce(`${name(node)}: looks at ${ranked(into.get(node), 0).slice(0, 3).map((other) => `${name(other.node)} ${percent(other.weight)}`).join(", ") || "nothing"}`);
  }

  function dot(node, x, y, radius) {
    const kind = kinds ? kinds[node] % COLOURS : null;
    return drawing("circle", { class: kind === null ? "node" : `node class${kind}`, cx: x, cy: y, r: radius });
  }

  function paint(focus = false) {
    const node = path.at(-1);
    const others = ranked(into.get(node), 0);
    const shown = others.slice(0, MOST);
    const top = shown[0]?.weight || 1;
    const lines = [];
    const spots = shown.map(({ node: other, weight: share }, i) => {
      const angle = Math.PI / 2 - (2 * Math.PI * i) / shown.length;
      const [x, y] = [Math.cos(angle), -Math.sin(angle)];
      lines.push(drawing("line", { class: "edge", x1: 0, y1: 0, x2: x, y2: y, "stroke-width": Math.max((0.09 * share) / top, 0.004) }));
      const across = Math.abs(x) < 0.3 ? "middle" : x > 0 ? "start" : "end";
      const up = Math.abs(x) < 0.3 ? (y < 0 ? -0.19 : 0.19) : 0;
      const text = drawing(
        "text",
        { x: x * 1.13, y: y + up, "text-anchor": across },
        drawing("tspan", {}, other === node ? "itself" : name(other).slice(0, 18)),
        drawing("tspan", { class: "share", x: x * 1.13, dy: "1.15em" }, percent(share)),
      );
      const label = `${name(other)}, ${percent(share)}${classes && kinds ? `, ${classes[kinds[other]]}` : ""}`;
      const spot = drawing("g", { class: "spot", role: "button", tabindex: 0, "aria-label": other === node ? `itself, ${percent(share)}` : `Go to ${label}` }, dot(other, x, y, 0.075), text);
      const act = () => other !== node && go(other);
      spot.addEventListener("click", act);
      spot.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        act();
      });
      return spot;
    });
    const middle = drawing("g", { class: "centre" }, dot(node, 0, 0, 0.11), drawing("text", { x: 0, y: 0.24, "text-anchor": "middle" }, name(node).slice(0, 24)));
    const picture = drawing("svg", { class: "egos", viewBox: "-2 -1.45 4 2.9", role: "group", "aria-label": `${name(node)} and the nodes it looks at` }, ...lines, ...spots, middle);
    const rest = others.slice(MOST);
    const note = rest.length && element("p", { class: "note" }, `${rest.length} more have ${percent(rest.reduce((sum, other) => sum + other.weight, 0))} together.`);
    field.replaceChildren(picture, ...(note ? [note] : []));
    const kindNote = classes && kinds ? `, ${classes[kinds[node]]}` : "";
    const list = (neighbours) => bars(neighbours.slice(0, 10).map((other) => ({ name: other.node === node ? "itself" : name(other.node), weight: other.weight })), neighbours[0]?.weight);
    outgoing.replaceChildren(element("h3", {}, element("bdi", {}, name(node)), `${kindNote} looks at`), others.length ? list(others) : element("p", {}, "nothing"));
    const by = ranked(out.get(node), 1);
    incoming.replaceChildren(element("h3", {}, "and is looked at by"), by.length ? list(by) : element("p", {}, "nothing"));
    if (classes && kinds) {
      const present = [...new Set([node, ...shown.map((other) => other.node)].map((member) => kinds[member]))].sort((a, b) => a - b);
      legend.replaceChildren(...present.map((kind) => element("span", {}, element("span", { class: `dot class${kind % COLOURS}`, "aria-hidden": "true" }), classes[kind])));
    }
    back.disabled = path.length < 2;
    if (focus && field.querySelector(".spot")) field.querySelector(".spot").focus({ preventScroll: true });
  }
});
