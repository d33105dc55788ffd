// The trace of a Stack RNN: what it read, what it expected, what it did with its stacks, and what is on top.
//
// data: { symbols, next, predicted: [text], probability (T,), known: [boolean], weights (T, stacks, actions),
//         tops (T, stacks), actions: [name], stacks: [number] }

import { element } from "../dom.js";
import { player } from "../player.js";
import { register } from "../registry.js";
import { percent, visible } from "../text.js";

register("stack", (data, root, { signal, announce, keyboard }) => {
  const { symbols, next, predicted, probability, known, weights, tops, actions, stacks } = data;
  const [, count] = tops.shape;
  const clock = player({
    noun: "symbol",
    signal,
    keyboard,
    change: paint,
    stepped: () => announce(line(now)),
  });
  let now = null;
  const names = ["Read", "Next", "Expected", "Probability of next", ...stacks.flatMap((stack) => [`Stack ${stack + 1}`, "Top"])];
  const lines = symbols.map((symbol, t) => {
    const wrong = known[t] && predicted[t] !== next[t];
    const sign = known[t] ? element("span", { class: wrong ? "bad" : "good" }, wrong ? " ✗" : " ✓") : false;
    const actionCells = stacks.flatMap((stack) => [
      element("td", {}, element("span", { class: `deed colour${best(t, stack) % 4}` }, actions[best(t, stack)]), element("span", { class: "note" }, ` ${percent(share(t, stack, best(t, stack)))}`)),
      element("td", { class: "number" }, number(tops.values[t * count + stack] * tops.scale)),
    ]);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, visible(symbol)),
      element("td", {}, visible(next[t])),
      element("td", {}, visible(predicted[t]), sign),
      element("td", { class: "number" }, percent(probability.values[t] * probability.scale)),
      ...actionCells,
    );
  });
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)));
  const holder = element(
    "section",
    { class: "panel scrolls", tabindex: 0, "aria-label": "The trace" },
    element("table", { class: "table" }, element("thead", {}, head), element("tbody", {}, ...lines)),
  );
  root.append(element("div", { class: "bar" }, clock.node), holder);
  clock.reset(symbols.length);

  function share(t, stack, action) {
    return weights.values[(t * count + stack) * actions.length + action] * weights.scale;
  }

  function best(t, stack) {
    const shares = actions.map((_, action) => share(t, stack, action));
    return shares.indexOf(Math.max(...shares));
  }

  function number(value) {
    return value.toFixed(2).replace("-", "−");
  }

  function line(t) {
    return `read ${symbols[t]}, expected ${predicted[t]}, then came ${next[t]}`;
  }

  function paint(time) {
    now = time;
    lines.forEach((row, t) => {
      row.classList.toggle("here", t === time);
      row.classList.toggle("future", time !== null && t > time);
    });
    if (time !== null) holder.scrollTop += lines[time].getBoundingClientRect().bottom > holder.getBoundingClientRect().bottom - 20 ? 200 : 0;
  }
});
