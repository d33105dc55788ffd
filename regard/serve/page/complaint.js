// An error message in the place of the answer.

import { element } from "../viewer/dom.js";
import { Problem } from "./api.js";

export function complaint(error) {
  const isProblem = error instanceof Problem;
  if (!isProblem) console.error(error); // a fault of this page
  return element(
    "p",
    { class: "wrong", role: "alert" },
    element("strong", {}, isProblem ? error.title : "A fault of this page"),
    error.message && element("span", {}, `: ${error.message}`),
  );
}
