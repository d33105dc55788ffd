// Elements from data. Text is always set as text, never parsed, so a token can be anything.

export function element(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function drawing(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

// `on` holds handlers, `vars` custom properties; an attribute that is null or false is left out.
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [type, handler] of Object.entries(value)) node.addEventListener(type, handler);
    else if (name === "vars") for (const [key, item] of Object.entries(value)) node.style.setProperty(key, item);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const ICONS = {
  play: "M4 2.5v11l9.5-5.5z",
  pause: "M3.5 2.5h3.2v11H3.5zM9.3 2.5h3.2v11H9.3z",
  back: "M12.5 2.5v11L5.5 8zM3 2.5h2v11H3z",
  next: "M3.5 2.5v11l7-5.5zM11 2.5h2v11h-2z",
  plus: "M7.1 3h1.8v4.1H13v1.8H8.9V13H7.1V8.9H3V7.1h4.1z",
  minus: "M3 7.1h10v1.8H3z",
  fit: "M2 2h5v1.8H3.8V7H2zM9 2h5v5h-1.8V3.8H9zM2 9h1.8v3.2H7V14H2zM12.2 9H14v5H9v-1.8h3.2z",
  sun: "M8 4.6a3.4 3.4 0 1 0 0 6.8 3.4 3.4 0 0 0 0-6.8zM7.2 0h1.6v3H7.2zM7.2 13h1.6v3H7.2zM0 7.2h3v1.6H0zM13 7.2h3v1.6h-3zM2 3.2 3.2 2l2 2L4 5.2zM10.8 12l1.2-1.2 2 2-1.2 1.2zM2 12.8l2-2L5.2 12l-2 2zM10.8 4l2-2L14 3.2l-2 2z",
  moon: "M6.2 1.2A7 7 0 1 0 14.8 9.8 6 6 0 0 1 6.2 1.2z",
};

export function icon(name) {
  const path = drawing("path", { d: ICONS[name], fill: "currentColor" });
  return drawing("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, path);
}

// A button that shows an icon and says what it does.
export function iconButton(name, label, click) {
  const button = element("button", { type: "button", class: "icon", "aria-label": label, title: label, on: { click } });
  button.append(icon(name));
  return button;
}

// A labelled choice. `options` are texts; `change` gets the index of the chosen one.
export function choice(label, options, chosen, change) {
  const list = options.map((text, index) => element("option", { value: index, selected: index === chosen }, text));
  const select = element("select", { on: { change: () => change(select.selectedIndex) } }, ...list);
  return element("label", { class: "choice" }, element("span", {}, label), select);
}
