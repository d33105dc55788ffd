// The words of a text, or other rows that `noun` names, to play, to point at and to choose. `paint` is called when the word that is shown changes, and
// `describe` returns the text that describes it.

import { element } from "./dom.js";
import { player } from "./player.js";
import { direction, visible } from "./text.js";

export function reader(words, { noun = "word", signal, keyboard, announce, describe, paint }) {
  let time = null;
  let pointed = null;
  const clock = player({
    noun,
    signal,
    keyboard,
    change: (value) => { time = value; changed(); },
    stepped: () => announce(describe()),
  });
  const chips = words.map((word, t) => {
    const button = element("button", { type: "button", class: "asked", on: { click: () => clock.go(t) } }, element("bdi", {}, visible(word)));
    button.addEventListener("pointerenter", () => { pointed = t; changed(); }, { signal });
    button.addEventListener("pointerleave", () => { pointed = null; changed(); }, { signal });
    return button;
  });

  // The word that is shown, null for none: the one that is pointed at, or the last that was played.
  const now = () => pointed ?? time;
  const changed = () => {
    chips.forEach((chip, index) => chip.setAttribute("aria-pressed", index === now()));
    paint();
  };
  return {
    now,
    played: () => time,
    nodes: [
      element("div", { class: "bar" }, clock.node),
      element("div", { class: "question", role: "group", "aria-label": `${noun[0].toUpperCase()}${noun.slice(1)}s`, dir: direction(words) }, ...chips),
    ],
    start: () => { clock.reset(words.length); changed(); },
  };
}
