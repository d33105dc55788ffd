// One field of a question, made from its JSON schema. `widget` in a schema asks for more than its type says. A field is
// {node, read, set}. `change(pause)` is called when a person changed it; with a pause (milliseconds) the question may be
// submitted after it without a click.

import { element } from "../viewer/dom.js";
import { image } from "./image.js";
import { pad } from "./pad.js";
import { sound } from "./sound.js";
import { vectors } from "./vectors.js";

let numbered = 0;

const WIDGETS = { lines, pad: strokes, image: photo, sound: recording, file, number, hidden, vectors: numbers };

export function field(name, schema, { change, signal }) {
  const types = { string: line, integer: number, number, boolean: check };
  const build = WIDGETS[schema.widget] ?? (schema.enum ? choice : types[schema.type]) ?? json;
  return build({ name, label: schema.title ?? name, ...schema, id: `field-${name}-${(numbered += 1)}`, change, signal });
}

function labelled({ id, label, description, name }, control, ...more) {
  if (description) control.setAttribute("aria-describedby", `${id}-about`);
  return element(
    "div",
    { class: "field", "data-field": name },
    element("label", { for: id }, label),
    control,
    ...more,
    description && element("p", { class: "about", id: `${id}-about` }, description),
  );
}

function line(options) {
  const { id, name, maxLength, pattern, change } = options;
  if (maxLength > 200) return lines(options);
  const input = element("input", { id, name, type: "text", maxlength: maxLength, pattern, autocomplete: "off", spellcheck: "false", on: { input: () => change() } });
  return { node: labelled(options, input), read: () => input.value, set: (value) => { input.value = value ?? ""; } };
}

function lines(options) {
  const { id, name, maxLength, rows = 2, change } = options;
  const input = element("textarea", { id, name, rows, maxlength: maxLength, spellcheck: "false", on: { input: () => change() } });
  return { node: labelled(options, input), read: () => input.value, set: (value) => { input.value = value ?? ""; } };
}

// A slider where both ends are known, and the number to type beside it.
function number(options) {
  const { id, name, type, minimum, maximum, optional = false, change } = options;
  const bounds = { min: minimum, max: maximum, step: type === "integer" ? 1 : "any" };
  const input = element("input", { id, name, type: "number", required: !optional, placeholder: optional && "as trained", ...bounds, on: { input: () => { follow(); change(400); } } });
  const slider = element("input", {
    type: "range",
    tabindex: -1,
    "aria-hidden": "true",
    ...bounds,
    on: { input: () => { input.value = slider.value; change(200); } },
  });
  const follow = () => { slider.value = input.value; };
  const both = !optional && maximum - minimum <= 1000;
  return {
    node: labelled(options, input, both && slider),
    read: () => (input.value === "" ? null : Number(input.value)),
    set: (value) => { input.value = value ?? (optional ? "" : (minimum ?? 0)); follow(); },
  };
}

function check(options) {
  const { id, name, label, description, change } = options;
  const input = element("input", { id, name, type: "checkbox", on: { change: () => change(0) } });
  const node = element("div", { class: "field check", "data-field": name }, input, element("label", { for: id, title: description }, label));
  return { node, read: () => input.checked, set: (value) => { input.checked = Boolean(value); } };
}

function choice(options) {
  const { id, name, optional, change } = options;
  const values = optional ? [null, ...options.enum] : options.enum;
  const select = element("select", { id, name, on: { change: () => change(0) } }, ...values.map((value) => element("option", {}, value === null ? "by default" : String(value))));
  return {
    node: labelled(options, select),
    read: () => values[select.selectedIndex],
    set: (value) => { select.selectedIndex = Math.max(0, values.indexOf(value ?? null)); },
  };
}

function strokes(options) {
  const drawn = pad(options);
  return { ...drawn, node: labelled(options, drawn.node) };
}

function numbers(options) {
  const widget = vectors(options);
  return { ...widget, node: element("div", { class: "field wide", "data-field": options.name }, element("span", { class: "label" }, options.label), widget.node, options.description && element("p", { class: "about" }, options.description)) };
}

function photo(options) {
  const chosen = image(options);
  return { ...chosen, node: labelled(options, chosen.node) };
}

function recording(options) {
  const widget = sound(options);
  return { ...widget, node: labelled(options, widget.node) };
}

// A file to choose; what is read is its bytes in base64.
function file(options) {
  const { id, name, accept, longest, change } = options;
  let encoded = "";
  const status = element("p", { class: "about", role: "status" });
  const input = element("input", { id, name, type: "file", accept, on: { change: () => take(input.files[0]) } });
  const clear = element("button", { type: "button", class: "plain", hidden: true, on: { click: () => { set(""); change(0); } } }, "Remove");

  async function take(chosen) {
    if (!chosen) return;
    if (chosen.size > longest) {
      set("");
      status.textContent = `${chosen.name} has ${chosen.size} bytes; at most ${longest} can be sent.`;
      return;
    }
    const data = new Uint8Array(await chosen.arrayBuffer());
    encoded = btoa(Array.from(data, (byte) => String.fromCharCode(byte)).join(""));
    clear.hidden = false;
    status.textContent = "";
    change(0);
  }

  function set(value) {
    encoded = value ?? "";
    clear.hidden = !encoded;
    status.textContent = "";
    if (!encoded) input.value = "";
  }

  return { node: labelled(options, input, clear, status), read: () => encoded, set };
}

// A value that a person does not choose but a link may set.
function hidden({ name, default: start }) {
  let current = start;
  return { node: element("input", { type: "hidden", name }), read: () => current, set: (value) => { current = value ?? start; } };
}

// The last resort: whatever it is, as JSON.
function json(options) {
  const { id, name, change } = options;
  const input = element("textarea", { id, name, rows: 3, spellcheck: "false", on: { input: () => { input.setCustomValidity(""); change(); } } });
  return {
    node: labelled(options, input),
    read: () => {
      try {
        return input.value.trim() === "" ? null : JSON.parse(input.value);
      } catch {
        input.setCustomValidity("This is not JSON.");
        return null;
      }
    },
    set: (value) => { input.value = value === undefined || value === null ? "" : JSON.stringify(value); },
  };
}
