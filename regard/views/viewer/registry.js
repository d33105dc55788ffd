// Kinds of views. A module in kinds/ registers one:
//
//   register("alignment", { mount(data, root, { signal, announce }) { … } });
//
// `mount` fills `root` once; what it starts (listeners, timers) ends with `signal`. `announce(text)` tells screen readers.

const kinds = new Map();

export function register(name, kind) {
  kinds.set(name, kind);
}

export function find(name) {
  if (!kinds.has(name)) throw new Error(`this viewer has no module for views of kind “${name}”`);
  return kinds.get(name);
}
