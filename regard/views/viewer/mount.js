// One view inside any element, the same on the page, in a notebook and in the explorer:
//
//   import { mount } from "./mount.js";        // the style sheet is view.css
//   const destroy = mount(element, view);      // view: {kind, title, data}, as regard.views.page.encode gives it
//
// The module of the kind is fetched from kinds/ unless it is loaded already. Colours follow data-theme="light" or "dark"
// of the document's root, else the system. Errors are shown inside the element.

import { unpack } from "./data.js";
import { element } from "./dom.js";
import { find, isRegistered } from "./registry.js";
import { saves } from "./saves.js";

// `keyboard` is where keys are listened to: the element, or the document if nothing else on it uses them; `shown` is
// called when the view stands, or with the error if it cannot.
export function mount(root, view, { keyboard = root, shown = () => {} } = {}) {
  const control = new AbortController();
  const { signal } = control;
  root.classList.add("regard-view", view.kind);
  open();

  async function open() {
    try {
      if (!/^[a-z]+$/.test(view.kind)) throw new Error(`“${view.kind}” is no kind of view`);
      if (!isRegistered(view.kind)) await import(`./kinds/${view.kind}.js`);
      const data = await unpack(view.data);
      if (signal.aborted) return;
      const live = element("div", { class: "unseen", "aria-live": "polite" });
      const picture = element("div", { class: "picture" });
      root.replaceChildren(picture, saves({ ...view, data }, picture), live);
      find(view.kind)(data, picture, { signal, keyboard, announce: (text) => { live.textContent = text; } });
      shown();
    } catch (error) {
      if (signal.aborted) return;
      console.error(error);
      root.replaceChildren(element("p", { class: "wrong", role: "alert" }, `This cannot be shown: ${error.message}.`));
      shown(error);
    }
  }

  return function destroy() {
    control.abort();
    root.classList.remove("regard-view", view.kind);
    root.replaceChildren();
  };
}
