// What stands above every page: where one may go, who one is, language, theme and the way out.

import { fill, h } from "./dom.js";
import { session } from "./session.js";
import { setTheme, theme, THEMES } from "./theme.js";
import { language, LANGUAGES, setLanguage, words } from "./words.js";

// In this order. roles: who may open it; everyone without.
const LINKS = [
  { path: "/", word: "home" },
  { path: "/chat", word: "chat" },
  { path: "/usage", word: "usage" },
  { path: "/plan", word: "plan" },
  { path: "/console", word: "console", roles: ["auditor", "admin"] },
];
const narrow = matchMedia("(max-width: 50rem)"); // there is no room for them side by side

const say = words({
  chat: { en: "Chat", ja: "チャット" },
  usage: { en: "Usage", ja: "利用状況" },
  home: { en: "Home", ja: "ホーム" },
  plan: { en: "Planner", ja: "容量計画" },
  console: { en: "Console", ja: "管理コンソール" },
  pages: { en: "Pages", ja: "ページ" },
  menu: { en: "Account and settings", ja: "アカウントと設定" },
  account: { en: "Where you are signed in", ja: "サインイン中のブラウザー" },
  language: { en: "Language", ja: "言語" },
  theme: { en: "Appearance", ja: "外観" },
  theme_system: { en: "As the system", ja: "システムに合わせる" },
  theme_light: { en: "Light", ja: "ライト" },
  theme_dark: { en: "Dark", ja: "ダーク" },
  sign_out: { en: "Sign out", ja: "サインアウト" },
  role_user: { en: "user", ja: "利用者" },
  role_service: { en: "service", ja: "サービス" },
  role_auditor: { en: "auditor", ja: "監査者" },
  role_admin: { en: "admin", ja: "管理者" },
});

/** Fills <header id="header">, behind its name. The links of this person come when the door has said who it is. */
export function showHeader() {
  const pages = h("nav", { "aria-label": say("pages") });
  const person = h("span", {}, say("menu"));
  const detail = h("p", { class: "soft" });
  document.getElementById("header").append(pages, account(person, detail));
  session().then(
    (who) => {
      showPages(pages, LINKS.filter(({ roles }) => !roles || roles.includes(who.role)).map(anchor));
      fill(person, who.name || say(`role_${who.role}`));
      fill(detail, `${say(`role_${who.role}`)} · ${who.tenant}`);
    },
    () => {}, // The page's own requests meet the same fault, and tell it.
  );
}

function anchor({ path, word }) {
  const here = path === "/" ? location.pathname === path : location.pathname.startsWith(path);
  return h("a", { href: path, "aria-current": here ? "page" : null }, say(word));
}

// Side by side, or in a menu that is called by the page that is open.
function showPages(place, links) {
  const here = links.find((link) => link.hasAttribute("aria-current"))?.textContent ?? say("pages");
  const show = () => fill(place, narrow.matches ? menu(here, links) : links);
  narrow.addEventListener("change", show);
  show();
}

function account(person, detail) {
  const signOut = h("form", { method: "post", action: "/auth/sign-out" }, h("button", {}, say("sign_out")));
  return menu(person, [
    detail,
    h("a", { href: "/account" }, say("account")),
    choice(say("language"), Object.entries(LANGUAGES), language, setLanguage),
    choice(
      say("theme"),
      THEMES.map((name) => [name, say(`theme_${name}`)]),
      theme(),
      setTheme,
    ),
    signOut,
  ]);
}

function menu(name, content) {
  const shown = h(
    "details",
    { class: "menu" },
    h("summary", {}, h("span", {}, name)),
    h("div", { class: "sheet" }, content),
  );
  shown.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !shown.open) return;
    shown.open = false;
    shown.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => {
    if (!shown.contains(event.target)) shown.open = false;
  });
  return shown;
}

function choice(label, options, chosen, change) {
  const list = options.map(([value, text]) => h("option", { value }, text));
  return h("label", {}, label, h("select", { value: chosen, onchange: (event) => change(event.target.value) }, list));
}
