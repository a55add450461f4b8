// What went wrong, in the reader's language by the error's code, with the door's own words and the number to ask by.

import { h } from "../lib/dom.js";
import { limitsReached } from "./limits.js";
import { has, say } from "./words.js";

const QUOTAS = ["rate_limit_exceeded", "insufficient_quota"];

/** `error`: an ApiError, or an error object of an answer's events. */
export function faultWords(error) {
  const known = `error_${error.status === 0 ? "unreachable" : error.code}`;
  const words = say(has(known) ? known : "error_other");
  const own = error.status === 0 ? null : h("p", { class: "soft" }, error.message);
  const request = error.requestId ? h("p", { class: "soft" }, say("request", { id: error.requestId })) : null;
  const limits = QUOTAS.includes(error.code) ? limitsReached() : null;
  return h("div", { class: "notice bad", role: "alert" }, h("p", {}, words), limits, own, request);
}
