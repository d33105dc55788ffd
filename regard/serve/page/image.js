// A picture to choose, drop or paste. What is read is its file in base64, made small enough to send.

import { element } from "../viewer/dom.js";
import { dropped } from "./dropped.js";

export function image({ id, label, change, signal, side = 320 }) {
  let encoded = "";
  const shown = element("img", { alt: "", hidden: true });
  const input = element("input", { id, type: "file", accept: "image/jpeg,image/png,image/webp" });
  const clear = element("button", { type: "button", class: "plain", hidden: true, on: { click: () => { set(""); change(0); } } }, "Remove");
  const hint = element("p", { class: "hint" }, "Choose, drop or paste a picture");
  const status = element("p", { class: "about", role: "status" });
  const node = element("div", { class: "photo" }, element("div", { class: "sheet" }, shown, hint), element("div", { class: "row" }, input, clear), status);

  dropped(node, input, take);
  document.addEventListener("paste", (event) => {
    const file = [...event.clipboardData.files].find((entry) => entry.type.startsWith("image/"));
    if (file) take(file);
  }, { signal });

  async function take(file) {
    if (!file) return;
    try {
      set(await small(file));
      change(0);
    } catch {
      status.textContent = `${file.name || "This"} is not a picture that can be read here.`;
    }
  }

  // As a JPEG of at most `side` pixels.
  async function small(file) {
    const picture = await createImageBitmap(file);
    const scale = Math.min(1, side / Math.max(picture.width, picture.height));
    const canvas = element("canvas", { width: Math.max(1, Math.round(picture.width * scale)), height: Math.max(1, Math.round(picture.height * scale)) });
    const context = canvas.getContext("2d");
    context.fillStyle = "white"; // below what is transparent
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", 0.85).split(",")[1];
  }

  function set(value) {
    encoded = value ?? "";
    status.textContent = "";
    shown.hidden = clear.hidden = !encoded;
    hint.hidden = Boolean(encoded);
    if (encoded) {
      shown.src = `data:image/jpeg;base64,${encoded}`;
      shown.alt = label;
    } else {
      shown.removeAttribute("src");
      input.value = "";
    }
  }

  return { node, read: () => encoded, set };
}
