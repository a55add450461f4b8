// Conversations kept in this browser alone (IndexedDB), where an administrator wants none on the server. The same calls
// as server_store.js.

import { ask } from "../lib/api.js";
import { asMarkdown } from "./exporting.js";
import { asPrompt } from "./tree.js";

const A_PAGE = 50;
const TITLE = 60; // characters

/** The store of one person of this browser; another who signs in here has another. */
export async function browserStore(subject) {
  const database = await opened(`sekisho-chat-${subject}`);
  const run = (mode, work) => transaction(database, mode, work);
  const load = async (id) => (await run("readonly", (all) => all.get(id))) ?? missing();
  const save = (conversation) => run("readwrite", (all) => all.put(plain(conversation)));
  return {
    async list({ search = "", after = "" } = {}) {
      const found = (await run("readonly", (all) => all.getAll())).filter((one) => matches(one, search));
      found.sort((one, other) => other.updated - one.updated || (one.id < other.id ? 1 : -1));
      const start = after ? found.findIndex((one) => one.id === after) + 1 : 0;
      const data = found.slice(start, start + A_PAGE);
      return { data, next: start + A_PAGE < found.length ? data.at(-1).id : null };
    },

    load,

    async create(fields) {
      const now = seconds();
      const made = { id: crypto.randomUUID?.() ?? String(Math.random()).slice(2), title: "", model: "", system: "" };
      const conversation = { ...made, parameters: {}, head: null, created: now, updated: now, messages: [], ...fields };
      await save(conversation);
      return conversation;
    },

    async change(id, fields) {
      await save({ ...(await load(id)), ...fields });
    },

    remove: (id) => run("readwrite", (all) => all.delete(id)),

    removeAll: () => run("readwrite", (all) => all.clear()),

    async exported(id, format) {
      const conversation = await load(id);
      return format === "json" ? JSON.stringify(conversation, null, 2) : asMarkdown(conversation);
    },

    answer(conversation, { parent, content, model, parameters, continue: cut = null }, signal) {
      const messages = asPrompt(conversation.messages, cut ?? parent, conversation.system);
      if (content !== undefined) messages.push({ role: "user", content });
      return ask("/chat/v1/answers", { json: { messages, model, parameters, continue: cut !== null }, signal });
    },

    /** The whole conversation after one of its messages has changed. */
    async keep(conversation) {
      conversation.updated = seconds();
      conversation.title ||= firstWords(conversation);
      await save(conversation);
    },
  };
}

function opened(name) {
  return new Promise((done, failed) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

function transaction(database, mode, work) {
  return new Promise((done, failed) => {
    const open = database.transaction("conversations", mode);
    const request = work(open.objectStore("conversations"));
    open.oncomplete = () => done(request.result);
    open.onerror = () => failed(open.error);
  });
}

// Messages are a Map while they are shown, and a list where they are kept.
function plain({ id, title, model, system, parameters, head, created, updated, messages }) {
  return { id, title, model, system, parameters, head, created, updated, messages: [...messages.values()] };
}

function matches({ title, messages }, search) {
  const wanted = search.toLowerCase();
  return [title, ...messages.map((message) => message.content)].some((text) => text.toLowerCase().includes(wanted));
}

function firstWords({ messages }) {
  const [first] = messages.values();
  return first ? [...first.content.trim().replace(/\s+/g, " ")].slice(0, TITLE).join("") : "";
}

function missing() {
  throw Object.assign(new Error("no such conversation in this browser"), { status: 404 });
}

function seconds() {
  return Math.floor(Date.now() / 1000);
}
