// The console's frame: where one may go, who looks, and which page stands there. Each page is a module of its own.

import { askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { showHeader } from "../lib/header.js";
import { clearResult, resultLine } from "./act.js";
import { problem } from "./problem.js";
import { say } from "./words/frame.js";

const ROOT = "/console";
const PAGES = new Map([
  ["overview", () => import("./overview.js")],
  ["queue", () => import("./queue.js")],
  ["backends", () => import("./backends.js")],
  ["users", () => import("./users.js")],
  ["sessions", () => import("./sessions.js")],
  ["groups", () => import("./groups.js")],
  ["service-accounts", () => import("./service_accounts.js")],
  ["keys", () => import("./keys.js")],
  ["policies", () => import("./policies.js")],
  ["usage", () => import("./usage.js")],
  ["audit", () => import("./audit.js")],
  ["settings", () => import("./settings.js")],
]);

const place = h("div", { class: "page" });
const nav = h("nav", { "aria-label": say("pages"), class: "console-nav" });
let who;
let api; // the document of the admin API: how what it takes looks
let leaving = new AbortController();

showHeader();
start();

async function start() {
  const main = document.getElementById("main");
  try {
    who = await askJson("/admin/v1/whoami");
    if (who.role !== "admin" && who.role !== "auditor") {
      fill(main, h("p", { class: "notice" }, say("not_yours")));
      return;
    }
    api = await askJson("/admin/v1/openapi.json");
  } catch (fault) {
    fill(main, problem(fault));
    return;
  }
  const readOnly = who.role === "admin" ? null : h("p", { class: "notice" }, say("read_only"));
  fill(main, h("div", { class: "console" }, nav, h("div", { class: "stage" }, readOnly, resultLine, place)));
  document.addEventListener("click", follow);
  addEventListener("popstate", show);
  show();
}

/** Links within the console change the page without loading all anew. */
function follow(event) {
  const link = event.target.closest("a[href]");
  if (!link || link.target || link.hasAttribute("download") || event.button || event.ctrlKey || event.metaKey) return;
  if (event.shiftKey || event.altKey || link.origin !== location.origin) return;
  if (link.pathname !== ROOT && !link.pathname.startsWith(`${ROOT}/`)) return;
  event.preventDefault();
  clearResult();
  go(link.pathname + link.search);
}

function go(path) {
  history.pushState(null, "", path);
  show();
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const [name = "overview", ...rest] = location.pathname
    .slice(ROOT.length + 1)
    .split("/")
    .filter(Boolean);
  const load = PAGES.get(name);
  showNav(name);
  document.title = `${load ? say(name) : say("console")} · Sekisho`;
  const shown = h("div", { class: "page-body", "aria-busy": "true" });
  fill(place, h("h1", { tabindex: "-1" }, load ? say(name) : say("console")), shown);
  const here = {
    place: shown,
    id: decodeURIComponent(rest.join("/")),
    query: new URLSearchParams(location.search),
    mayChange: who.role === "admin",
    schema: (name) => api.components.schemas[name],
    signal,
    go,
    again: show,
  };
  try {
    if (!load) fill(shown, h("p", {}, say("no_page")));
    else await (await load()).show(here);
  } catch (fault) {
    if (fault.name === "AbortError" || signal.aborted) return;
    fill(shown, problem(fault));
    if (fault.name !== "ApiError") throw fault;
  } finally {
    shown.setAttribute("aria-busy", "false");
  }
}

function showNav(current) {
  const link = (name) =>
    h("a", { href: `${ROOT}/${name}`, "aria-current": name === current ? "page" : null }, say(name));
  fill(nav, [...PAGES.keys()].map(link), h("a", { href: "/plan" }, say("planner")));
  // On a telephone the links are a strip that scrolls.
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}
