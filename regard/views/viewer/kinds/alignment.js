// Alignments of a translation, one or those of a beam. The data are described in aligned.js.

import { aligned } from "../aligned.js";
import { register } from "../registry.js";

register("alignment", aligned);
