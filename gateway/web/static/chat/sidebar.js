// The list of conversations: searched, renamed, exported, deleted.

import { fill, h } from "../lib/dom.js";
import { download } from "../lib/download.js";
import { number } from "../lib/format.js";
import { confirmed, form } from "./dialogs.js";
import { icon } from "./icons.js";
import { say } from "./words.js";

const PAUSE = 250; // ms after the last letter of a search

export class Sidebar {
  /** `go(id)` opens a conversation; `begin()` a new one. */
  constructor(session, settings, { go, begin }) {
    this.#session = session;
    this.#go = go;
    this.#begin = begin;
    const start = h("button", { type: "button", class: "new", onclick: begin }, icon("add"), say("new_chat"));
    this.element = h(
      "nav",
      { class: "sidebar", "aria-label": say("conversations") },
      start,
      this.search,
      this.#list,
      this.#empty,
      this.#more,
      h("footer", { class: "soft" }, h("span", {}, kept(settings)), this.#removeAll),
    );
    this.search.addEventListener("input", () => this.#searchSoon());
    // Not heard this time, it is shown as it was.
    session.addEventListener("list", () => this.load().catch(() => {}));
    session.addEventListener("changed", () => this.#mark());
    this.load();
  }

  search = h("input", { type: "search", placeholder: say("search"), "aria-label": say("search") });
  #session;
  #go;
  #begin;
  #list = h("ul", {});
  #empty = h("p", { class: "soft", hidden: true });
  #more = h(
    "button",
    { type: "button", class: "plain small", hidden: true, onclick: () => this.#loadMore() },
    say("more"),
  );
  #removeAll = h(
    "button",
    { type: "button", class: "plain small", hidden: true, onclick: () => this.#dropAll() },
    say("remove_all"),
  );
  #timer = 0;
  #asked = 0; // the last search: an earlier one may be answered later
  #next = null;
  #stale = false; // there is news, to be shown when the menu is closed

  async load() {
    const asked = ++this.#asked;
    const search = this.search.value.trim();
    const { data, next } = await this.#session.store.list({ search });
    if (asked !== this.#asked) return;
    const open = data.find(({ id }) => id === this.#session.conversation.id);
    if (open) this.#session.named(open.title);
    // A menu that is open is not taken from under the pointer.
    this.#stale = this.#list.querySelector("details[open]") !== null;
    if (this.#stale) return;
    fill(
      this.#list,
      data.map((one) => this.#item(one)),
    );
    this.#empty.hidden = data.length > 0 || Boolean(next);
    this.#empty.textContent = say(search ? "none_found" : "none_yet");
    this.#removeAll.hidden = data.length === 0 || Boolean(search);
    this.#showNext(next);
  }

  async #loadMore() {
    const { data, next } = await this.#session.store.list({ search: this.search.value.trim(), after: this.#next });
    this.#list.append(...data.map((one) => this.#item(one)));
    this.#showNext(next);
  }

  #showNext(next) {
    this.#next = next;
    this.#more.hidden = !next;
    this.#mark();
  }

  #searchSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load(), PAUSE);
  }

  #mark() {
    const { id } = this.#session.conversation;
    for (const link of this.#list.querySelectorAll("a")) {
      link.parentElement.classList.toggle("open", link.dataset.id === id);
      if (link.dataset.id === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  #item({ id, title }) {
    const name = title || say("untitled");
    const open = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // as any link: another tab, another window
      event.preventDefault();
      this.#go(id);
    };
    const link = h(
      "a",
      { href: `/chat?c=${encodeURIComponent(id)}`, dataset: { id }, onclick: open, title: name },
      name,
    );
    const act = (words, go) =>
      h("button", { type: "button", class: "plain", onclick: () => ((menu.open = false), go(id, name)) }, say(words));
    const menu = h(
      "details",
      { class: "menu" },
      h(
        "summary",
        { "aria-label": say("actions_of", { title: name }), title: say("actions_of", { title: name }) },
        icon("more"),
      ),
      h(
        "div",
        { class: "sheet" },
        act("rename", () => this.#rename(id, title)),
        act("export_markdown", () => this.#export(id, name, "markdown")),
        act("export_json", () => this.#export(id, name, "json")),
        act("remove", () => this.#drop(id, name)),
      ),
    );
    menu.addEventListener("toggle", () => !menu.open && this.#stale && this.load());
    menu.addEventListener("focusout", (event) => menu.contains(event.relatedTarget) || (menu.open = false));
    menu.addEventListener(
      "keydown",
      (event) => event.key === "Escape" && ((menu.open = false), menu.firstChild.focus()),
    );
    return h("li", {}, link, menu);
  }

  async #rename(id, title) {
    const field = h("input", { value: title, maxLength: 120, required: true });
    const wanted = await form(say("rename"), [[say("title"), field]], () => field.value.trim());
    if (!wanted) return;
    if (id === this.#session.conversation.id) await this.#session.configure({ title: wanted });
    else await this.#session.store.change(id, { title: wanted });
    this.load();
  }

  async #export(id, name, format) {
    const [ending, type] = format === "json" ? ["json", "application/json"] : ["md", "text/markdown"];
    download(`${name}.${ending}`, await this.#session.store.exported(id, format), type);
  }

  async #drop(id, title) {
    if (!(await confirmed(say("remove_question", { title }), say("no_way_back"), say("remove")))) return;
    await this.#session.store.remove(id);
    this.#session.removed(id);
    if (id === this.#session.conversation.id) this.#begin();
  }

  async #dropAll() {
    if (!(await confirmed(say("remove_all_question"), say("no_way_back"), say("remove_all")))) return;
    await this.#session.store.removeAll();
    this.#session.removed(null);
    this.#begin();
  }
}

function kept({ storage, retention_days: days }) {
  if (storage === "browser") return say("kept_browser");
  return days ? say("kept_days", { days: number(days) }) : say("kept_server");
}
