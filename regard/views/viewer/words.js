// Two rows of words, source above target, and lines between them: the stronger the look, the stronger the line.

import { drawing, element } from "./dom.js";
import { direction, percent, visible } from "./text.js";

const MOST_LINES = 400;

// `point(place)` gets what the pointer or the keyboard is on, {side, index} or null; `pin(place)` what was clicked.
export function words({ columns, names, point, pin, signal }) {
  const lines = drawing("svg", { class: "lines", "aria-hidden": "true" });
  const sides = {
    source: row("source", `${names.source} words`),
    target: row("target", `${names.target} words`),
  };
  const node = element(
    "div",
    { class: "words" },
    lines,
    element("div", { class: "side" }, element("h3", {}, names.source), sides.source.list),
    element("div", { class: "side" }, sides.target.list, element("h3", {}, names.target)),
  );
  sides.source.set(columns);
  let shown = null; // the last arguments of paint
  let ends = null; // where the words are

  const moved = () => {
    ends = null;
    if (shown) draw();
  };
  new ResizeObserver(moved).observe(node);
  for (const side of Object.values(sides)) side.list.addEventListener("scroll", moved, { signal });

  function row(side, label) {
    const list = element("div", {
      class: `row ${side}`,
      role: "listbox",
      "aria-label": label,
      "aria-orientation": "horizontal",
      tabindex: -1,
    });
    let chips = [];
    const place = (event) => {
      const chip = event.target.closest?.("[role=option]");
      return chip ? { side, index: Number(chip.dataset.index) } : null;
    };
    list.addEventListener("pointerover", (event) => event.pointerType !== "touch" && point(place(event)), { signal });
    list.addEventListener("pointerleave", () => point(null), { signal });
    list.addEventListener("focusin", (event) => point({ ...place(event), keyboard: true }), { signal });
    list.addEventListener("focusout", () => point(null), { signal });
    list.addEventListener("click", (event) => place(event) && pin(place(event)), { signal });
    list.addEventListener("keydown", (event) => move(event, side), { signal });
    return {
      list,
      get chips() {
        return chips;
      },
      set(tokens) {
        list.dir = direction(tokens);
        chips = tokens.map((token, index) =>
          element(
            "span",
            { role: "option", class: "word", tabindex: index ? -1 : 0, "aria-selected": "false", "data-index": index },
            element("bdi", {}, visible(token)),
          ),
        );
        list.replaceChildren(...chips);
        if (!tokens.length) list.append(element("span", { class: "none" }, "no words"));
      },
    };
  }

  // Arrows along a row; up and down follow the strongest line to the other row.
  function move(event, side) {
    const { chips, list } = sides[side];
    const from = chips.indexOf(document.activeElement);
    if (from < 0 || !shown) return;
    const forward = list.dir === "rtl" ? -1 : 1;
    const to = {
      ArrowRight: () => chips[from + forward],
      ArrowLeft: () => chips[from - forward],
      Home: () => chips[0],
      End: () => chips.at(-1),
      ArrowDown: () => side === "source" && sides.target.chips[strongest("source", from)],
      ArrowUp: () => side === "target" && sides.source.chips[strongest("target", from)],
    }[event.key];
    if (to) {
      event.preventDefault();
      event.stopPropagation();
      focus(to() || chips[from]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      pin({ side, index: from });
    }
  }

  function focus(chip) {
    const list = chip.parentElement;
    for (const other of list.children) other.tabIndex = -1;
    chip.tabIndex = 0;
    chip.focus({ preventScroll: true });
    reveal(list, chip);
  }

  // Scroll a row that is longer than its box, and nothing else, to a word.
  function reveal(list, chip) {
    const [outer, inner] = [list.getBoundingClientRect(), chip.getBoundingClientRect()];
    if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top + 24;
    else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom + 24;
  }

  function strongest(side, index) {
    let [best, most] = [0, -1];
    const count = side === "source" ? shown.matrix.rows : shown.matrix.columns;
    for (let other = 0; other < count; other++) {
      const weight = side === "source" ? shown.matrix.at(other, index) : shown.matrix.at(index, other);
      if (weight > most) [best, most] = [other, weight];
    }
    return best;
  }

  function setTarget(tokens) {
    sides.target.set(tokens);
    ends = null;
  }

  // `active` is {side, index, other?} or null; `time` the last word written so far or null.
  function paint(matrix, active, time) {
    shown = { matrix, active, time };
    const far = active && (active.side === "target" ? "source" : "target");
    node.dataset.active = active ? active.side : "";
    for (const [side, { chips }] of Object.entries(sides)) {
      chips.forEach((chip, index) => {
        const future = side === "target" && time !== null && index > time;
        const own = active !== null && side === active.side && index === active.index;
        const other = side === far && index === active.other;
        let weight = 0;
        if (side === far && !future) {
          weight = side === "source" ? matrix.at(active.index, index) : matrix.at(index, active.index);
        }
        const share = (weight / matrix.top).toFixed(2);
        const label = weight >= 0.1 * matrix.top ? percent(weight) : "";
        const state = `${future} ${own} ${other} ${share} ${label}`;
        if (chip.look === state) return; // of two thousand words few change
        chip.look = state;
        chip.classList.toggle("future", future);
        chip.classList.toggle("own", own);
        chip.classList.toggle("other", other);
        chip.setAttribute("aria-selected", own);
        chip.style.setProperty("--share", share);
        if (label) chip.dataset.share = label;
        else delete chip.dataset.share;
      });
    }
    if (active && !active.pointer) {
      const near = sides[active.side];
      if (near.chips[active.index]) reveal(near.list, near.chips[active.index]);
      const partner = sides[far].chips[strongest(active.side, active.index)];
      if (partner) reveal(sides[far].list, partner);
    }
    draw();
  }

  function draw() {
    const { matrix, active, time } = shown;
    ends ??= { source: spots("source"), target: spots("target") };
    const only = (side) => (active?.side === side ? [ends[side].spots[active.index]] : ends[side].spots).filter((spot) => spot?.seen);
    const written = only("target").filter(({ index }) => time === null || index <= time);
    const least = active ? 0.015 : 0.12;
    const links = [];
    for (const to of written) {
      for (const from of only("source")) {
        const weight = matrix.at(to.index, from.index) / matrix.top;
        if (weight >= least) links.push({ from, to, weight });
      }
    }
    links.sort((a, b) => b.weight - a.weight);
    // Where rows have several lines, the whole picture is busy: it shows the strongest look of each word.
    const busy = !active && ends.source.lines + ends.target.lines > 2;
    const firsts = busy ? links.filter(({ from, to }) => strongest("target", to.index) === from.index) : links;
    const strength = busy ? 0.7 : 1;
    const paths = firsts.slice(0, MOST_LINES).map(({ from, to, weight }) => {
      const bend = Math.max(24, (to.y - from.y) * 0.55);
      return drawing("path", {
        d: `M${from.x},${from.y}C${from.x},${from.y + bend} ${to.x},${to.y - bend} ${to.x},${to.y}`,
        "stroke-width": (0.75 + 4.5 * weight).toFixed(2),
        "stroke-opacity": (strength * (0.12 + 0.78 * weight)).toFixed(2),
        "data-link": `${to.index}-${from.index}`,
      });
    });
    lines.replaceChildren(...paths.reverse());
  }

  // Where lines touch the words of a row: below those of the source, above those of the target.
  function spots(side) {
    const { list, chips } = sides[side];
    const [box, outer] = [node.getBoundingClientRect(), list.getBoundingClientRect()];
    const tops = new Set();
    const touching = chips.map((chip, index) => {
      const { left, width, top, bottom } = chip.getBoundingClientRect();
      tops.add(Math.round(top));
      const y = (side === "source" ? bottom : top) - box.top;
      return { index, x: left + width / 2 - box.left, y, seen: top >= outer.top - 1 && bottom <= outer.bottom + 1 };
    });
    return { spots: touching, lines: tops.size };
  }

  return { node, paint, setTarget };
}
