// Links that open a page with its question: "#/translate-en-es?text=I love coffee.". A text stands as it is, everything
// else as JSON.

export function read(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  let name = path;
  try {
    name = decodeURIComponent(path);
  } catch {
    // A % that means nothing is left as it is.
  }
  return { name, values: Object.fromEntries(new URLSearchParams(query)) };
}

export function write(name, values) {
  const entries = Object.entries(values)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
  // A link is read aloud and typed: keep spaces and commas legible.
  const query = new URLSearchParams(entries).toString().replaceAll("%2C", ",").replaceAll("%5B", "[").replaceAll("%5D", "]");
  const path = name.split("/").map(encodeURIComponent).join("/");
  return `#/${path}${query && `?${query}`}`;
}

// What a link says about one field, as the type that its schema has; undefined if it says nothing of use.
export function typed(text, schema) {
  if (text === undefined) return undefined;
  if (schema.type === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
