// What a model may be asked, from the server's own description of itself (OpenAPI): {verb, properties: name → schema}.

import * as api from "./api.js";

export async function question({ path }) {
  const root = await api.description();
  const { schema } = root.paths[path].post.requestBody.content["application/json"];
  const { verb = "Ask", properties = {} } = follow(schema, root);
  const simple = Object.entries(properties).map(([key, property]) => [key, definite(follow(property, root))]);
  return { verb, properties: Object.fromEntries(simple) };
}

// What {$ref: "#/components/schemas/Question"} stands for.
function follow(schema, root) {
  if (!schema.$ref) return schema;
  const { $ref, ...more } = schema;
  return { ...$ref.replace("#/", "").split("/").reduce((place, key) => place[key], root), ...more };
}

// "This or null" as this, which may be left out.
function definite(schema) {
  const others = schema.anyOf?.filter(({ type }) => type !== "null") ?? [];
  return others.length === 1 ? { ...schema, ...others[0], optional: true } : schema;
}
