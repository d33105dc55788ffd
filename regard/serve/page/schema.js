// What a model may be asked, from the server's own description of itself (OpenAPI): {verb, properties: name → schema}.

import * as api from "./api.js";

// What the page says otherwise than the schema, which is written for programs. An `option` is out of the way at first.
const KINDS = {
  text: {
    verb: "Translate",
    fields: {
      text: { title: "A sentence", description: undefined },
      nbest: { title: "Answers", description: undefined, option: true },
      beam: { title: "Beam", description: "Beginnings that are kept while it searches.", option: true },
      pictures: { widget: "hidden" },
    },
  },
};

export async function question({ name, kind }) {
  const root = await api.description();
  const { schema } = root.paths[`/api/models/${name}/answer`].post.requestBody.content["application/json"];
  const { verb = "Ask", properties = {} } = follow(schema, root);
  const { fields = {}, ...own } = KINDS[kind] ?? {};
  const simple = Object.entries(properties).map(([key, each]) => [key, { ...definite(follow(each, root)), ...fields[key] }]);
  return { verb, ...own, properties: Object.fromEntries(simple) };
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
