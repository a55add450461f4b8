// The planner: asks the door for a plan at every change, and keeps what is asked in the address.

import { askJson } from "../lib/api.js";
import { copyButton } from "../lib/clipboard.js";
import { fill, h } from "../lib/dom.js";
import { number, rounded } from "../lib/format.js";
import { showHeader } from "../lib/header.js";
import { planForm } from "./form.js";
import { results } from "./results.js";
import { queryOf, readState } from "./state.js";
import { say } from "./words.js";

const PAUSE_MS = 150; // of typing, before it is asked

const state = readState(location.search);
const shown = h("div", { class: "results", "aria-busy": "true" });
const told = h("p", { class: "unseen", role: "status" });
const here = h("section", { class: "card" });
const shapes = new Map(); // by the model's name
const address = h("span", { class: "unseen" });
let form;
let asking = new AbortController();
let waiting;

showHeader();
start();

async function start() {
  const main = document.getElementById("main");
  const share = copyButton(() => location.href, address, say("link"));
  fill(main, h("div", { class: "plan-head" }, h("h1", {}, say("title")), h("p", {}, say("intro"))), told);
  try {
    const options = await askJson("/plan/v1/options");
    for (const { name, shape } of options.models) shapes.set(name, shape);
    form = planForm(options, state, changed);
  } catch (fault) {
    fill(main, problem(fault));
    return;
  }
  main.append(
    h(
      "div",
      { class: "plan" },
      h("div", { class: "asked" }, form.element, h("p", { class: "share" }, say("share"), share, address)),
      h("div", {}, shown, here),
    ),
  );
  await Promise.all([plan(), showMeasured()]);
}

function changed() {
  clearTimeout(waiting);
  waiting = setTimeout(plan, PAUSE_MS);
}

async function plan() {
  const asked = { ...state };
  const query = queryOf(asked);
  history.replaceState(null, "", `?${query}`);
  fill(address, location.href); // what is selected where scripts have no clipboard
  asking.abort();
  asking = new AbortController();
  shown.setAttribute("aria-busy", "true");
  try {
    const found = await askJson(`/plan/v1/plan?${query}`, { signal: asking.signal });
    form.complain("", "");
    fill(shown, results(found, asked, shapes.get(asked.model)?.num_experts ?? 0));
    fill(told, found.advice ? `${number(found.advice.max_num_seqs)} ${say("seats")}` : "");
  } catch (fault) {
    if (fault.name === "AbortError") return;
    complain(fault);
  }
  shown.setAttribute("aria-busy", "false");
}

function complain(fault) {
  const placed = form.complain(fault.param, fault.message);
  fill(shown, problem(fault));
  fill(told, placed ? fault.message : "");
}

function problem(fault) {
  const words = fault.status ? say("failed", { message: fault.message }) : say("away");
  return h("p", { class: "notice bad", role: "alert" }, words);
}

async function showMeasured() {
  const { data } = await askJson("/plan/v1/measured").catch(() => ({ data: [] })); // beside the plan; it stands without
  fill(
    here,
    h("h2", {}, say("here")),
    h("p", { class: "soft" }, say(data.length ? "here_words" : "here_none")),
    data.map(measuredLine),
  );
}

function measuredLine({ model, running, tok_s }) {
  const words = say("here_line", {
    model,
    running: number(running, 1),
    total: number(tok_s),
    each: rounded(tok_s / running),
  });
  const batch = Math.max(Math.round(running), 1);
  // A plan's rows are of certain batches; the speed of that many is as many times the speed of each.
  const use = () => form.set("measured", `${batch}:${Math.round((tok_s / running) * batch * 10) / 10}`);
  return h(
    "p",
    { class: "measured" },
    words,
    h("button", { type: "button", class: "small", onclick: use }, say("here_use")),
  );
}
