// The chat page: what there is, put together. The address names the conversation: /chat?c=<id>.

import { ApiError, askJson } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { showHeader } from "../lib/header.js";
import { session as whoIsHere } from "../lib/session.js";
import { announce } from "./announce.js";
import { pictureButton } from "./buttons.js";
import { Composer } from "./composer.js";
import { copied } from "./copying.js";
import { dialog } from "./dialogs.js";
import { faultWords } from "./faults.js";
import { showNearLimits } from "./limits.js";
import { modelPicker, usualModel } from "./models.js";
import { editOptions } from "./options.js";
import { serverStore } from "./server_store.js";
import { Session } from "./session.js";
import { listenToKeys, showShortcuts } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { amongTabs } from "./tabs.js";
import { chooseTemplate } from "./templates.js";
import { Thread } from "./thread.js";
import { say } from "./words.js";

const LIST_HIDDEN = "sekisho-chat-list-hidden"; // lib/first.js reads it
const place = document.getElementById("main");

start().catch((fault) => fill(place, faultWords(fault)));

async function start() {
  showHeader();
  const [settings, who] = await Promise.all([askJson("/chat/v1/settings"), whoIsHere()]);
  const session = new Session(await store(settings, who.subject));
  session.tell = amongTabs(who.subject, (id) => heed(session, id));
  build(session, settings);
  addEventListener("unhandledrejection", (event) => {
    if (!(event.reason instanceof ApiError)) return;
    event.preventDefault();
    dialog(say("error_other"), faultWords(event.reason));
  });
  await show(session, settings);
  addEventListener("popstate", () => show(session, settings));
}

async function store({ storage }, subject) {
  if (storage !== "browser") return serverStore;
  return (await import("./browser_store.js")).browserStore(subject);
}

function build(session, settings) {
  const { models } = settings;
  const context = () => models.find(({ id }) => id === session.conversation.model)?.context ?? 0;
  const begin = () => go(session, settings, null);
  const thread = new Thread(session);
  const templates = () => chooseTemplate().then((text) => text && composer.insert(text));
  const composer = new Composer(session, place.querySelector(".composer"), {
    context,
    mostBytes: settings.max_message_bytes,
    templates,
    editLast: () => thread.editLast(),
  });
  const sidebar = new Sidebar(session, settings, { go: (id) => go(session, settings, id), begin });
  const near = h("p", { class: "notice near", hidden: true });
  const list = listSwitch();
  // Into the frame that the page came with. The field stays where it is: somebody may be writing in it already.
  const [column, part] = [place.querySelector(".column"), (name) => place.querySelector(name)];
  part(".sidebar").replaceWith(sidebar.element, h("div", { class: "veil", onclick: () => list.click() }));
  part(".bar").replaceWith(titleBar(session, models, list, begin));
  part(".stage").replaceWith(thread.element);
  part(".composer").before(near);
  if (settings.notice) near.before(h("p", { class: "notice" }, settings.notice));
  if (!models.length) near.after(h("p", { class: "notice bad" }, say("no_models")));
  dropping(column, composer);

  session.addEventListener("changed", () => column.classList.toggle("empty", session.path.length === 0));
  session.addEventListener("created", () => history.replaceState(null, "", address(session.conversation.id)));
  session.addEventListener("ended", () => showNearLimits(near));
  listenToKeys({
    new: begin,
    search: () => (showList(true), sidebar.search.focus()),
    field: () => composer.field.focus(),
    copy: () => copied(thread.lastAnswer).then(() => announce(say("copied"))),
    stop: () => session.stop(),
    list: () => list.click(),
  });
  showNearLimits(near);
  composer.field.focus();
}

function titleBar(session, models, list, begin) {
  const heading = h("h1", { class: "unseen" });
  const title = h("span", { class: "title", "aria-hidden": "true" }); // the heading says it, on a telephone too
  session.addEventListener("changed", () => {
    const name = session.conversation.title;
    title.textContent = name;
    heading.textContent = name || say("new_chat");
    document.title = `${heading.textContent} · Sekisho`;
  });
  const options = pictureButton("options", "tune", () => editOptions(session));
  const help = pictureButton("shortcuts", "keys", showShortcuts);
  const start = pictureButton("new_chat", "add", begin);
  return h("div", { class: "bar" }, heading, list, modelPicker(session, models), options, title, help, start);
}

// A conversation by its id; null: a new one. Back and forward go through those that were open.
function go(session, settings, id) {
  if (address(id) !== location.pathname + location.search) history.pushState(null, "", address(id));
  if (matchMedia("(max-width: 50rem)").matches) showList(false);
  return show(session, settings);
}

async function show(session, { models }) {
  const id = new URLSearchParams(location.search).get("c");
  if (!id) return session.begin({ model: usualModel(models) });
  try {
    await session.open(id);
  } catch (fault) {
    if (!(fault instanceof ApiError) && fault.status !== 404) throw fault;
    announce(say("gone"));
    history.replaceState(null, "", address(null));
    session.begin({ model: usualModel(models) });
  }
}

function heed(session, id) {
  const open = session.conversation.id;
  if (open && (id === null || id === open)) session.refresh().catch(() => {});
  session.dispatchEvent(new CustomEvent("list"));
}

function address(id) {
  return id ? `/chat?c=${encodeURIComponent(id)}` : "/chat";
}

function listSwitch() {
  return pictureButton("conversations", "menu", () =>
    showList(document.documentElement.classList.contains("list-hidden")),
  );
}

function showList(shown) {
  document.documentElement.classList.toggle("list-hidden", !shown);
  if (matchMedia("(max-width: 50rem)").matches) return;
  if (shown) localStorage.removeItem(LIST_HIDDEN);
  else localStorage.setItem(LIST_HIDDEN, "1");
}

function dropping(column, composer) {
  const veil = h("div", { class: "drop", hidden: true }, say("drop"));
  column.append(veil);
  const withFiles = (event) => event.dataTransfer?.types.includes("Files");
  column.addEventListener("dragover", (event) => withFiles(event) && (event.preventDefault(), (veil.hidden = false)));
  column.addEventListener("dragleave", (event) => column.contains(event.relatedTarget) || (veil.hidden = true));
  column.addEventListener("drop", (event) => {
    if (!withFiles(event)) return;
    event.preventDefault();
    veil.hidden = true;
    composer.add(event.dataTransfer.files);
  });
}
