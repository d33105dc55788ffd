// One model: its question as a form, and its answer with pictures; on demand another model's answer beside it.

import { element } from "../viewer/dom.js";
import { mount } from "../viewer/mount.js";
import * as api from "./api.js";
import { complaint } from "./complaint.js";
import { form } from "./form.js";
import { write } from "./link.js";
import { question } from "./schema.js";

export async function model(root, { name, values, signal }) {
  const all = [...(await api.models()), ...(await api.lessons())];
  const about = all.find((entry) => entry.name === name);
  if (!about) {
    const modelNames = all.map((entry) => entry.name).join(", ") || "none";
    throw new api.Problem({ title: `No model here is called “${name}”`, detail: `there are ${modelNames}.` });
  }
  const schema = await question(about);
  const others = await alike(all, about, schema);
  const usualPartner = about.compared ? others[0] : undefined;
  let beside = "beside" in values ? others.find((other) => other.name === values.beside) : usualPartner;

  const columns = element("div", { class: "columns" });
  let answerColumns = [];
  root.classList.toggle("drawn", Object.values(schema.properties).some((property) => property.widget === "pad"));
  const questionForm = form({ schema, examples: about.examples, submit: ask, signal });
  const link = element("button", { type: "button", class: "plain", on: { click: copy } }, "Copy link");
  questionForm.button.append(link, others.length ? compare() : "");
  root.append(
    element(
      "header",
      { class: "head" },
      element("h1", {}, about.title),
      element("p", { class: "lead" }, about.sentence),
      element("p", { class: "about" }, [about.paper, about.data && `data: ${about.data}`].filter(Boolean).join(" · ")),
      about.script && element("p", { class: "about" }, "The same as a script: ", element("a", { href: `source/${about.script}` }, about.script)),
    ),
    questionForm.node,
    columns,
  );
  signal.addEventListener("abort", () => answerColumns.forEach((column) => column.close()));
  arrange();
  if (questionForm.open(values)) for (const column of answerColumns) column.ask(questionForm.read());

  function arrange() {
    answerColumns.forEach((column) => column.close());
    answerColumns = [about, beside].filter(Boolean).map((partner) => answers(partner, beside, follow));
    columns.replaceChildren(...answerColumns.map((column) => column.node));
    columns.classList.toggle("pair", answerColumns.length > 1);
  }

  function ask(question) {
    history.replaceState(null, "", address(question));
    for (const column of answerColumns) column.ask(question);
  }

  function address(question) {
    // A picture or a recording is too long for a link.
    const linkable = Object.entries(question).filter(([key]) => !["image", "sound", "file"].includes(schema.properties[key]?.widget));
    return write(name, { ...Object.fromEntries(linkable), ...(beside !== usualPartner && { beside: beside?.name ?? "none" }) });
  }

  function follow(question) {
    questionForm.set({ ...questionForm.read(), ...question });
    questionForm.ask();
  }

  function compare() {
    const names = ["nothing", ...others.map((other) => other.name)];
    const select = element("select", {}, ...names.map((partner) => element("option", { selected: partner === beside?.name }, partner)));
    select.addEventListener("change", () => {
      beside = others[select.selectedIndex - 1];
      arrange();
      questionForm.ask();
    });
    return element("label", { class: "choice" }, element("span", {}, "Beside it"), select);
  }

  async function copy() {
    history.replaceState(null, "", address(questionForm.read()));
    try {
      await navigator.clipboard.writeText(location.href);
      link.textContent = "Copied";
    } catch {
      link.textContent = "See the address bar"; // a page that is not on this machine may have no clipboard
    }
    setTimeout(() => { link.textContent = "Copy link"; }, 1600);
  }
}

// The other models that take the same questions about the same data.
async function alike(all, about, schema) {
  const near = all.filter((other) => other.kind === about.kind && other.data === about.data && other.name !== about.name);
  const schemas = await Promise.all(near.map(question));
  const fields = ({ properties }) => Object.keys(properties).join();
  return near.filter((_, index) => fields(schemas[index]) === fields(schema));
}

// A column: what one model answers. The answer before stays, paler, until the next one stands.
function answers(about, several, follow) {
  let pending = null;
  let pictures = [];
  const body = element("div", { class: "body" });
  const node = element(
    "section",
    { class: "answer", "aria-label": several ? `Answer of ${about.name}` : "Answer", "aria-live": "polite", "data-model": about.name },
    several && element("h2", {}, element("a", { href: write(about.name, {}) }, about.name), element("span", {}, about.system)),
    body,
  );

  async function ask(question) {
    pending?.abort();
    const mine = (pending = new AbortController());
    node.setAttribute("aria-busy", "true");
    if (!body.hasChildNodes()) body.append(element("p", { class: "waiting" }, "Thinking …"));
    try {
      const reply = await api.answer(about, question, mine.signal);
      if (mine.signal.aborted) return;
      show(reply);
    } catch (error) {
      if (mine.signal.aborted) return;
      clear();
      body.replaceChildren(complaint(error));
    }
    node.setAttribute("aria-busy", "false");
    node.dataset.answers = Number(node.dataset.answers ?? 0) + 1;
  }

  function show(reply) {
    clear();
    const places = reply.pictures.map((picture) => {
      const place = element("div", {});
      const heading = reply.pictures.length > 1 && picture.title && element("h3", {}, element("bdi", {}, picture.title));
      return [element("div", { class: "shown" }, heading, place), place, picture];
    });
    body.replaceChildren(...replyParts(reply, follow), ...places.map(([frame]) => frame));
    pictures = places.map(([, place, picture]) => mount(place, picture));
  }

  function clear() {
    for (const destroy of pictures) destroy?.();
    pictures = [];
  }

  return { node, ask, close: () => { pending?.abort(); clear(); } };
}

function replyParts(reply, follow) {
  const next = (reply.next ?? []).map(({ label, question }) =>
    element("button", { type: "button", class: "chip", on: { click: () => follow(question) } }, element("bdi", {}, label)),
  );
  return [
    reply.text && element("p", { class: "said" }, element("bdi", {}, reply.text)),
    reply.notes?.length && element("p", { class: "note" }, element("bdi", {}, reply.notes.join(" "))),
    next.length && element("div", { class: "examples", role: "group", "aria-label": "Where to go from here" }, ...next),
  ].filter(Boolean);
}
