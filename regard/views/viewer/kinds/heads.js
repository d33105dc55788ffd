// Self-attention or any other, all its layers and heads; rows and columns are queries and keys.
//
// data: that of aligned.js, and `word`: the number of the row in focus at first, or null.

import { aligned } from "../aligned.js";
import { register } from "../registry.js";

register("heads", (data, root, context) =>
  aligned(data, root, { ...context, names: { source: "Looked at", target: "Looking" }, pinned: data.word ?? null }),
);
