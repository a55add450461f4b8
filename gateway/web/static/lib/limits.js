// The limits of policies by the names that the door gives them (gateway/quotas/policy.py), as people say them.

import { moment, number } from "./format.js";
import { words } from "./words.js";

const say = words({
  requests: { en: "Requests", ja: "リクエスト" },
  tokens: { en: "Tokens", ja: "トークン" },
  input_tokens: { en: "Input tokens", ja: "入力トークン" },
  output_tokens: { en: "Output tokens", ja: "出力トークン" },
  cost: { en: "Cost", ja: "料金" },
  concurrent_requests: { en: "Requests at once", ja: "同時リクエスト" },
  minute: { en: "{what} per minute", ja: "{what}（1分あたり）" },
  day: { en: "{what} per day", ja: "{what}（1日あたり）" },
  month: { en: "{what} per month", ja: "{what}（1か月あたり）" },
  used: { en: "{used} of {limit}", ja: "{used} / {limit}" },
  frees: { en: "frees {when}", ja: "{when} に解除" },
});
const A_DAY = 86_400; // s

export function limitName(name) {
  const [, what, period] = /^(.*?)(?:_per_(minute|day|month))?$/.exec(name);
  return period ? say(period, { what: say(what) }) : say(what);
}

export function limitUse({ name, used, limit }) {
  const digits = name === "cost_per_month" ? 2 : 0;
  return say("used", { used: number(used, digits), limit: number(limit, digits) });
}

/** When it frees; empty where it frees with the next answer. */
export function limitFrees({ resets_at: at }) {
  if (!at) return "";
  const style = at - Date.now() / 1000 < A_DAY ? { timeStyle: "short" } : undefined;
  return say("frees", { when: moment(at, style) });
}

/** Whether it is worth a word before it is reached: what frees within minutes is not. */
export function lasts({ name }) {
  return /_per_(?:day|month)$/.test(name);
}
