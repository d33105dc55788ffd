// Requests to the server. Its errors are problems (RFC 9457): {title, detail, status}.

export class Problem extends Error {
  constructor({ title = "Something went wrong", detail = "", status = 0 }) {
    super(detail);
    Object.assign(this, { title, status });
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The server does not answer", detail: "Was regard explore stopped? Start it again, and ask once more." });
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem({ status: response.status, ...body });
  return body;
}

const cache = new Map();

// Of things that do not change while the server runs.
function once(path) {
  if (!cache.has(path)) {
    const answer = ask(path);
    answer.catch(() => cache.delete(path));
    cache.set(path, answer);
  }
  return cache.get(path);
}

function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

export const models = () => once("api/models");
export const description = () => once("openapi.json");
export const principle = () => once("api/principle");
export const lessons = () => once("api/lessons");
export const lecture = () => once("api/lecture");
export const answer = ({ path }, question, signal) => post(path.slice(1), question, signal);
export const weigh = (question, signal) => post("api/weigh", question, signal);
