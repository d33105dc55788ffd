// The frame around every view: heading, light and dark, the list of views, and the one that is shown.

import { element, icon, iconButton } from "./dom.js";
import { mount } from "./mount.js";
import { bytes } from "./text.js";
import { dark, onTheme, recall, toggle } from "./theme.js";

const VERSION = 1;
const FILTER_FROM = 12; // views

// Show the page's own data.
export function start() {
  recall();
  const root = document.getElementById("regard");
  try {
    show(root, JSON.parse(document.getElementById("regard-data").textContent));
  } catch (error) {
    complain(root, error);
  }
}

function complain(root, error) {
  console.error(error);
  root.replaceChildren(element("p", { class: "wrong", role: "alert" }, `This page cannot be shown: ${error.message}.`));
}

// Show `content`, {version, title, views: [{kind, title, data}]}, inside `root`.
export function show(root, content) {
  if (content.version !== VERSION) throw new Error(`its data are of version ${content.version}, its viewer of ${VERSION}`);
  const { title, views } = content;
  const theme = iconButton("moon", "", toggle);
  const showTheme = () => {
    const other = dark() ? "Light colours" : "Dark colours";
    theme.setAttribute("aria-label", other);
    theme.title = other;
    theme.replaceChildren(icon(dark() ? "sun" : "moon"));
  };
  onTheme(showTheme);
  showTheme();

  const main = element("main", { id: "view", tabindex: -1 });
  const links = views.map((view, index) =>
    element("li", {}, element("a", { href: `#${index + 1}` }, element("bdi", {}, view.title || `View ${index + 1}`))),
  );
  const size = Number(document.documentElement.dataset.size);
  const promise = "This file holds everything that it shows and asks nothing of any network.";
  root.replaceChildren(
    element("header", {}, element("h1", {}, title), theme),
    element("div", { class: views.length > 1 ? "frame listed" : "frame" }, views.length > 1 && list(links), main),
    element("footer", {}, `${promise}${size ? ` ${bytes(size)}.` : ""} Weights are kept in 8 bits.`),
  );

  let leave = () => {};
  function open() {
    const number = Number(location.hash.slice(1)) - 1;
    const index = views[number] ? number : 0;
    leave();
    links.forEach((item, other) => {
      if (other === index) item.firstChild.setAttribute("aria-current", "page");
      else item.firstChild.removeAttribute("aria-current");
    });
    const place = element("div");
    const { kind, title: heading } = views[index];
    main.replaceChildren(place);
    leave = mount(place, views[index], { keyboard: document, shown });

    // A single picture needs a heading, too, such as the question that it answers, unless it spells that itself.
    function shown() {
      const headingIsShown = heading === title || heading === kind || letters(place.textContent).includes(letters(heading));
      if (views.length > 1 || !headingIsShown) main.prepend(element("h2", {}, element("bdi", {}, heading)));
      root.dataset.ready = index + 1;
    }
  }
  addEventListener("hashchange", open);
  open();
}

const letters = (text) => text.replace(/\s+/g, "");

function list(links) {
  const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the list" });
  filter.addEventListener("input", () => {
    const query = filter.value.toLowerCase();
    for (const item of links) item.hidden = !item.textContent.toLowerCase().includes(query);
  });
  return element(
    "nav",
    { "aria-label": "Views" },
    links.length >= FILTER_FROM && filter,
    element("ol", {}, ...links),
  );
}
