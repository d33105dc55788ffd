// A text that is shaded by where it was looked at; of several readings, one at a time or their mean.
//
// data: { words: [token], weights (rows, words), rows: [name] }, and, if there are any: blanks: [is there one before the
//         word?], marked: [numbers of words that are the answer], question, text: what was answered, answers: [right]

import { bars } from "../bars.js";
import { element } from "../dom.js";
import { player } from "../player.js";
import { register } from "../registry.js";
import { direction, percent, visible } from "../text.js";
import { onTheme, ramp } from "../theme.js";

const MOST = 10; // words in the list

register("document", (data, root, { signal, announce, keyboard }) => {
  const { words, weights, rows, question = "", text: prediction = "", answers = [] } = data;
  const blanks = data.blanks ?? words.map(() => true);
  const marked = new Set(data.marked ?? []);
  const count = rows.length;
  let time = null;
  let pointed = null;

  const clock = count > 1 && player({
    noun: "word of the question",
    signal,
    keyboard,
    change: (value) => { time = value; paint(); },
    stepped: () => announce(`${visible(rows[time])}: ${ranked().slice(0, 3).map(({ name, weight }) => `${visible(name)} ${percent(weight)}`).join(", ")}`),
  });
  const questionButtons = rows.map((name, row) =>
    element("button", { type: "button", class: "asked", on: { click: () => clock.go(row) } }, element("bdi", {}, visible(name))),
  );
  const spans = words.map((word, index) =>
    element("span", { class: marked.has(index) ? "shaded marked" : "shaded", "data-index": index }, visible(word)),
  );
  const text = element("p", { class: "text", dir: direction(words) });
  spans.forEach((span, index) => text.append(index && blanks[index] ? " " : "", span));
  const wordList = element("div", { class: "looks" });
  text.addEventListener("pointerover", (event) => {
    const span = event.target.closest(".shaded");
    pointed = span ? Number(span.dataset.index) : null;
    list();
  }, { signal });
  text.addEventListener("pointerleave", () => { pointed = null; list(); }, { signal });
  const readings = count > 1 && element("div", { class: "question", role: "group", "aria-label": "Readings" }, ...questionButtons);
  const verdict = !answers.length ? "" : answers.includes(prediction) ? " right" : ` right is ${answers.map(visible).join(" or ")}`;
  const answerLine = (question || prediction) && element("p", { class: "said" }, element("bdi", {}, visible(question || " ")), " ", element("strong", {}, visible(prediction || " ")), element("span", { class: "note" }, verdict));
  root.append(
    ...(clock ? [element("div", { class: "bar" }, clock.node)] : []),
    ...(readings ? [readings] : []),
    element(
      "div",
      { class: "split" },
      element("section", { class: "panel scrolls", tabindex: 0, "aria-label": "The text" }, text, ...(answerLine ? [answerLine] : [])),
      element("section", { class: "panel", "aria-label": "The strongest words" }, wordList),
    ),
  );
  if (clock) clock.reset(count);
  onTheme(paint, signal);
  paint();

  function weight(word, row = time) {
    if (row !== null) return weights.values[row * words.length + word] * weights.scale;
    let sum = 0;
    for (let r = 0; r < count; r++) sum += weights.values[r * words.length + word] * weights.scale;
    return sum / count;
  }

  function ranked() {
    return words.map((name, index) => ({ name, index, weight: weight(index) })).sort((a, b) => b.weight - a.weight);
  }

  function paint() {
    const colours = ramp();
    const shares = words.map((_, index) => weight(index));
    const top = Math.max(...shares, 1e-9);
    spans.forEach((span, index) => {
      const level = Math.round((255 * shares[index]) / top);
      span.style.backgroundColor = level > 4 ? colours.text[level] : "";
      span.style.color = level > 4 ? colours.over[level] : "";
    });
    questionButtons.forEach((button, row) => button.setAttribute("aria-pressed", row === time));
    list();
  }

  function list() {
    const reading = time !== null ? `“${visible(rows[time])}” looked at` : count > 1 ? "All readings, their mean" : "Looked at";
    if (pointed !== null && count > 1) {
      const shares = rows.map((name, row) => ({ name, weight: weight(pointed, row), marked: row === time }));
      const most = Math.max(...shares.map((share) => share.weight));
      wordList.replaceChildren(element("h3", {}, element("bdi", {}, visible(words[pointed])), " was looked at by"), bars(shares.slice(0, 24), most, "source"));
      return;
    }
    const ranking = ranked();
    const shown = ranking.slice(0, MOST).map((share) => ({ ...share, marked: share.index === pointed }));
    if (pointed !== null && !shown.some(({ marked }) => marked)) shown.push({ ...ranking.find(({ index }) => index === pointed), marked: true });
    wordList.replaceChildren(element("h3", {}, reading), bars(shown, ranking[0]?.weight));
  }
});
