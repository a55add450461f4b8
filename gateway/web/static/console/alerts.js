// What operators should act on now, above the overview. The API decides what that is, and says it.

import { h } from "../lib/dom.js";
import { say } from "./words/live.js";

const SIGNS = { critical: "■", warning: "▲", info: "●" };

export function alertList(alerts) {
  return h(
    "section",
    { class: "card alerts" },
    h("h2", {}, say("alerts")),
    alerts.length ? h("ul", {}, alerts.map(line)) : h("p", { class: "good" }, "✓ ", say("calm")),
  );
}

function line({ severity, message, todo }) {
  return h(
    "li",
    { class: severity },
    h("strong", {}, `${SIGNS[severity]} ${say(severity)}`),
    h("span", {}, message),
    h("span", { class: "soft reason" }, todo),
  );
}
