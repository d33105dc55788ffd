// What the page carries: JSON in which arrays are {"$array": {shape, type, scale?, deflate?, data}}.

const TYPES = { uint8: Uint8Array, int32: Int32Array, float32: Float32Array };

// The same value with every array as {shape, values, scale}: number = values[i] * scale.
export async function unpack(value) {
  if (Array.isArray(value)) return Promise.all(value.map(unpack));
  if (value === null || typeof value !== "object") return value;
  if ("$array" in value) return array(value.$array);
  const entries = Object.entries(value).map(async ([key, item]) => [key, await unpack(item)]);
  return Object.fromEntries(await Promise.all(entries));
}

async function array({ shape, type, scale = 1, deflate = false, data }) {
  const packed = atob(data);
  let bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  if (deflate) bytes = await inflate(bytes);
  const values = new TYPES[type](bytes.buffer);
  if (values.length !== shape.reduce((a, b) => a * b, 1)) throw new Error("an array of this page is not whole");
  return { shape, values, scale };
}

async function inflate(bytes) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot decompress the page's data; write the page with compress=False");
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// One (T, S) matrix of weights (T, S), (H, T, S) or (L, H, T, S). A layer or head is a number, or null for the mean.
// `full` fixes the scale of its colours to 100 %.
export function matrix(weights, layer = null, head = null, full = false) {
  const { shape, values, scale } = weights;
  const [rows, columns] = shape.slice(-2);
  const heads = shape.length > 2 ? shape.at(-3) : 1;
  const layers = shape.length > 3 ? shape.at(-4) : 1;
  const size = rows * columns;
  const result = new Float32Array(size);
  const chosen = [];
  for (let l = 0; l < layers; l++) {
    for (let h = 0; h < heads; h++) {
      if ((layer === null || l === layer) && (head === null || h === head)) chosen.push((l * heads + h) * size);
    }
  }
  const share = scale / chosen.length;
  for (const start of chosen) for (let i = 0; i < size; i++) result[i] += values[start + i] * share;
  let largest = 0;
  for (let i = 0; i < size; i++) largest = Math.max(largest, result[i]);
  return { rows, columns, values: result, top: full ? Math.max(1, largest) : darkest(largest, columns), at: (t, s) => result[t * columns + s] };
}

// The weight of the darkest colour: 1, or the largest where all are small, as in long documents; at least four times an
// even share, so that uniform attention does not look certain.
export function darkest(largest, columns) {
  return largest > 0.5 || largest === 0 ? Math.max(1, largest) : Math.min(1, Math.max(largest, 4 / columns));
}
