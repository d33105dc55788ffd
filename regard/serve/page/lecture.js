// The lecture: the address has "?lecture", type is large, and the arrow keys turn pages in the order of the lectures.

import { element } from "../viewer/dom.js";
import * as api from "./api.js";
import { read } from "./link.js";

export const lecturing = new URLSearchParams(location.search).has("lecture");

export async function lecture() {
  if (!lecturing) return;
  document.documentElement.classList.add("lecture");
  const slides = await api.lecture();
  const place = () => slides.findIndex(({ name }) => name === read(location.hash).name);
  const go = (to) => { if (slides[to]) location.hash = `#/${encodeURIComponent(slides[to].name)}`; };
  const select = element("select", { "aria-label": "Page of the lecture", on: { change: () => go(select.selectedIndex) } },
    ...slides.map(({ part, title, name }, index) => element("option", {}, `${index + 1}. ${part}: ${title} (${name})`)));
  const back = element("button", { type: "button", class: "plain", on: { click: () => go(place() - 1) } }, "← Back");
  const next = element("button", { type: "button", class: "strong", on: { click: () => go(place() + 1) } }, "Next →");
  const leave = element("a", { class: "plain", href: location.pathname }, "End");
  document.body.append(element("nav", { class: "turn", "aria-label": "Lecture" }, back, select, next, leave));
  const show = () => {
    const now = place();
    select.selectedIndex = now;
    back.disabled = now <= 0;
    next.disabled = now === slides.length - 1;
  };
  addEventListener("hashchange", show);
  addEventListener("keydown", (event) => {
    // Arrows belong to fields, maps and players while those have the focus.
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!["BODY", "MAIN"].includes(event.target.tagName)) return;
    const by = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    go(place() + by);
  });
  show();
}
