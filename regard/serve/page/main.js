// The frame of the explorer: which page the address names, and light and dark.

import { element, icon, iconButton } from "../viewer/dom.js";
import { dark, onTheme, recall, toggle } from "../viewer/theme.js";
import { complaint } from "./complaint.js";
import { home } from "./home.js";
import { lecture } from "./lecture.js";
import { read } from "./link.js";
import { model } from "./model.js";
import { playground } from "./playground.js";
import { principle } from "./principle.js";

const PAGES = { "": home, principle, playground };
const main = document.getElementById("main");
let current = null;

// A page is a function (root, {name, values, signal}) that fills `root`; what it starts ends with `signal`.
async function open() {
  const { name, values } = read(location.hash);
  const again = current !== null;
  current?.abort();
  const { signal } = (current = new AbortController());
  for (const link of document.querySelectorAll(".places a")) {
    const { name: linkName } = read(link.getAttribute("href"));
    if (linkName === name || (linkName === "" && !(name in PAGES))) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const root = element("div", { class: "page" });
  try {
    await (PAGES[name] ?? model)(root, { name, values, signal });
  } catch (error) {
    if (signal.aborted) return;
    root.replaceChildren(complaint(error));
  }
  if (signal.aborted) return;
  main.replaceChildren(root);
  main.dataset.page = name;
  const heading = root.querySelector("h1")?.textContent;
  document.title = heading && name ? `${heading} · regard` : "regard · the explorer";
  if (again) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

const theme = iconButton("moon", "", toggle);
function showTheme() {
  const other = dark() ? "Light colours" : "Dark colours";
  theme.setAttribute("aria-label", other);
  theme.title = other;
  theme.replaceChildren(icon(dark() ? "sun" : "moon"));
}
onTheme(showTheme);
recall();
showTheme();
document.getElementById("theme").replaceWith(theme);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which page is open
  main.focus();
});
addEventListener("hashchange", open);
open();
lecture();
