// Kinds of views. A module in kinds/ registers one:
//
//   register("alignment", (data, root, { signal, announce, keyboard }) => { … });
//
// It fills `root` once; what it starts (listeners, timers) ends with `signal`. `announce(text)` tells screen readers,
// and keys that work anywhere in the view are listened to on `keyboard`. A new kind is one file there, and a function
// view() in a module of regard/views.

const kinds = new Map();

export function register(name, show) {
  kinds.set(name, show);
}

export function isRegistered(name) {
  return kinds.has(name);
}

export function find(name) {
  if (!kinds.has(name)) throw new Error(`this viewer has no module for views of kind “${name}”`);
  return kinds.get(name);
}
