// The form of a question, a field for each property of its schema, with examples to try.

import { element } from "../viewer/dom.js";
import { field } from "./fields.js";
import { typed } from "./link.js";

// `submit(question)` is called when a person asks.
export function form({ schema, examples, submit, signal }) {
  const fields = {};
  for (const [name, fieldSchema] of Object.entries(schema.properties)) {
    fields[name] = field(name, fieldSchema, { signal, change: (pause) => later(pause) });
  }
  let timer = null;
  signal.addEventListener("abort", () => clearTimeout(timer));

  function later(pause) {
    clearTimeout(timer);
    if (pause !== undefined) timer = setTimeout(ask, pause);
  }

  function ask() {
    clearTimeout(timer);
    const question = read();
    if (node.checkValidity()) submit(question);
    else node.reportValidity();
  }

  function read() {
    return Object.fromEntries(Object.entries(fields).map(([name, { read: value }]) => [name, value()]).filter(([, value]) => value !== null));
  }

  // Fill the fields; those without a value take their default.
  function set(values) {
    for (const [name, control] of Object.entries(fields)) control.set(values[name] ?? schema.properties[name].default);
  }

  // The values of a link or, if it has none, the first example. Returns whether there was either.
  function open(texts) {
    const linked = Object.entries(fields).map(([name]) => [name, typed(texts[name], schema.properties[name])]);
    const present = linked.filter(([, value]) => value !== undefined);
    set(present.length ? Object.fromEntries(present) : (examples[0] ?? {}));
    return present.length > 0 || examples.length > 0;
  }

  const node = element(
    "form",
    { class: "panel form", on: { submit: (event) => { event.preventDefault(); ask(); } } },
    element("div", { class: "fields" }, ...nodes(false)),
    element("div", { class: "row ask" }, element("button", { type: "submit", class: "strong" }, schema.verb)),
    examples.length > 1 && list(),
    nodes(true).length > 0 && element("details", {}, element("summary", {}, "Options"), element("div", { class: "fields" }, ...nodes(true))),
  );
  // Enter sends what is no longer than a sentence; a story needs it for its lines.
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("textarea") && (event.ctrlKey || event.metaKey || event.target.rows <= 2) && !event.shiftKey) {
      event.preventDefault();
      ask();
    }
  });

  function nodes(option) {
    return Object.entries(fields).filter(([name]) => Boolean(schema.properties[name].option) === option).map(([, control]) => control.node);
  }

  function list() {
    const tries = examples.map((example) =>
      element("button", { type: "button", class: "chip", on: { click: () => { set(example); ask(); } } }, element("bdi", {}, caption(example))),
    );
    return element("div", { class: "examples", role: "group", "aria-label": "Examples" }, ...tries);
  }

  // An example in a few words: the last of its texts, else what it sets.
  function caption(example) {
    const texts = Object.entries(example).filter(([name, value]) => typeof value === "string" && value && !schema.properties[name]?.option);
    if (texts.length) return texts.at(-1)[1];
    const settings = Object.entries(example).filter(([, value]) => value !== "");
    return settings.map(([name, value]) => (Array.isArray(value) ? "a drawing" : `${name} ${value}`)).join(", ");
  }

  return { node, read, set, open, ask, button: node.querySelector(".ask") };
}
