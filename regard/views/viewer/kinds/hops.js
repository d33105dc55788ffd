// A story and where each hop looked in it.
//
// data: { story: [sentence], weights (hops, sentences), question, prediction, answer: text | null, support: [number] }

import { element } from "../dom.js";
import { player } from "../player.js";
import { register } from "../registry.js";
import { percent, visible } from "../text.js";
import { onTheme, ramp } from "../theme.js";

register("hops", (data, root, { signal, announce, keyboard }) => {
  const { story, weights, question, prediction, answer, support } = data;
  const hops = weights.shape[0];
  let time = null;
  const at = (hop, place) => weights.values[hop * story.length + place] * weights.scale;
  const marked = new Set(support);

  const clock = player({
    noun: "hop",
    signal,
    keyboard,
    change: (value) => { time = value; paint(); },
    stepped: () => announce(describe()),
  });
  const headings = ["Story", ...(support.length ? ["Support"] : []), ...Array.from({ length: hops }, (_, hop) => `Hop ${hop + 1}`)];
  const head = element("tr", {}, ...headings.map((name) => element("th", { scope: "col" }, name)));
  const cells = [];
  const lines = story.map((sentence, place) => {
    const shares = Array.from({ length: hops }, (_, hop) => {
      const cell = element("td", { class: "shade" }, percent(at(hop, place)));
      cells.push({ cell, hop, place });
      return cell;
    });
    const proof = support.length ? [element("td", { class: "proof" }, marked.has(place) ? "yes" : "")] : [];
    return element("tr", {}, element("th", { scope: "row" }, element("bdi", {}, visible(sentence))), ...proof, ...shares);
  });
  const verdict = answer === null || answer === undefined ? "" : answer === prediction ? "right" : `wrong, it is ${visible(answer)}`;
  const answerLine = question && element("p", { class: "said" }, element("bdi", {}, visible(question)), " ", element("strong", {}, visible(prediction)), verdict && element("span", { class: "note" }, ` ${verdict}`));
  root.append(
    element("div", { class: "bar" }, clock.node),
    element(
      "section",
      { class: "panel scrolls", tabindex: 0, "aria-label": "The story and where each hop looked" },
      element("table", { class: "table" }, element("thead", {}, head), element("tbody", {}, ...lines)),
    ),
  );
  if (answerLine) root.insertBefore(answerLine, root.lastChild);
  reveal();
  clock.reset(hops);
  onTheme(paint, signal);
  paint();

  // Of a story that is longer than its box, the sentence that the last hop looked at most.
  function reveal() {
    const line = lines[strongest(hops - 1)];
    const box = line.closest("section");
    box.scrollTop = Math.max(0, line.offsetTop + line.offsetHeight - box.clientHeight + 24);
  }

  function strongest(hop) {
    return story.reduce((best, _, place) => (at(hop, place) > at(hop, best) ? place : best), 0);
  }

  function describe() {
    const hop = time ?? hops - 1;
    const best = strongest(hop);
    return `hop ${hop + 1} looked at: ${visible(story[best])}, ${percent(at(hop, best))}`;
  }

  function paint() {
    const colours = ramp();
    for (const { cell, hop, place } of cells) {
      const reached = time === null || hop <= time;
      const level = reached ? Math.min(255, Math.round(255 * at(hop, place))) : 0;
      cell.style.backgroundColor = colours.text[level];
      cell.style.color = colours.over[level];
      cell.classList.toggle("future", !reached);
    }
    lines.forEach((line, place) => {
      const strongestHere = time !== null && at(time, place) === Math.max(...story.map((_, other) => at(time, other)));
      line.classList.toggle("here", strongestHere);
    });
  }
});
