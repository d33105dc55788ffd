// Time that can be stepped and played: one step per word, glimpse or layer.

import { element, icon, iconButton } from "./dom.js";

const PACE = 750; // milliseconds

// `change(time)` gets the step, from 0, or null for all steps at once. On `keyboard` arrows step, space plays and
// Escape shows all steps; `stepped()` is called after a step by keys, for screen readers; `pace` is in milliseconds.
export function player({ noun, change, signal, keyboard, stepped = () => {}, pace = PACE }) {
  let length = 0;
  let time = null;
  let timer = null;

  const back = iconButton("back", `Previous ${noun} (left arrow)`, () => step(-1));
  const play = iconButton("play", "Play (space)", () => toggle());
  const next = iconButton("next", `Next ${noun} (right arrow)`, () => step(1));
  const slider = element("input", {
    type: "range",
    min: 1,
    step: 1,
    "aria-label": `Step through time, one ${noun} at a time`,
    on: { input: () => { stop(); go(Number(slider.value) - 1); } },
  });
  const position = element("output", { class: "told" });
  const all = element("button", { type: "button", class: "all", on: { click: () => { stop(); go(null); } } }, "All");
  const node = element("div", { class: "player", role: "group", "aria-label": "Time" }, back, play, next, slider, position, all);
  signal.addEventListener("abort", stop);

  function show() {
    slider.max = Math.max(1, length);
    slider.value = time === null ? length : time + 1;
    slider.setAttribute("aria-valuetext", time === null ? `all ${length}` : `${noun} ${time + 1} of ${length}`);
    position.textContent = time === null ? `all ${length}` : `${time + 1} of ${length}`;
    all.setAttribute("aria-pressed", time === null);
    const playing = timer !== null;
    play.setAttribute("aria-label", playing ? "Pause (space)" : "Play (space)");
    play.title = playing ? "Pause (space)" : "Play (space)";
    play.replaceChildren(icon(playing ? "pause" : "play"));
    for (const control of [back, play, next, slider, all]) control.disabled = length === 0;
  }

  function go(value) {
    time = value;
    show();
    change(time);
  }

  function step(by) {
    stop();
    if (length === 0) return;
    const from = time === null ? (by > 0 ? -1 : length) : time;
    go(Math.min(Math.max(from + by, 0), length - 1));
  }

  function toggle() {
    if (timer !== null) {
      stop();
      return;
    }
    if (length === 0) return;
    timer = setInterval(() => {
      if (time === null || time >= length - 1) {
        stop();
        go(null);
      } else {
        go(time + 1);
      }
    }, pace);
    go(time === null || time >= length - 1 ? 0 : time);
  }

  function stop() {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    show();
  }

  // Start again with this many steps, all shown.
  function reset(steps) {
    stop();
    length = steps;
    time = null;
    show();
  }

  function keys(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
    const control = event.target.closest?.("button, select, input, textarea, a, summary, [role=button]");
    if (event.key === "Escape") {
      stop();
      go(null);
    } else if (event.key === " " && (!control || control.type === "range" || control.type === "radio")) {
      event.preventDefault();
      toggle();
    } else if (!control && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      event.preventDefault();
      step(event.key === "ArrowRight" ? 1 : -1);
      stepped();
    }
  }
  keyboard.addEventListener("keydown", keys, { signal });

  return { node, reset, go: (value) => { stop(); go(value); } };
}
