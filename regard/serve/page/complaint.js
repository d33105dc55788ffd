// What went wrong, told where the answer would have been.

import { element } from "../viewer/dom.js";
import { Problem } from "./api.js";

export function complaint(error) {
  const known = error instanceof Problem;
  if (!known) console.error(error); // a fault of this page
  return element(
    "p",
    { class: "wrong", role: "alert" },
    element("strong", {}, known ? error.title : "A fault of this page"),
    error.message && element("span", {}, `: ${error.message}`),
  );
}
