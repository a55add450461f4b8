// A fault of a request, as people are told of it.

import { h } from "../lib/dom.js";
import { say } from "./words/frame.js";

export function problem(fault) {
  return h("p", { class: "notice bad", role: "alert" }, wordsOf(fault));
}

export function wordsOf(fault) {
  if (fault.name !== "ApiError") return String(fault.message);
  if (!fault.status) return say("away");
  // Only what is the gateway's fault is looked up in its log.
  return fault.status >= 500 ? say("failed", { message: fault.message, id: fault.requestId }) : fault.message;
}
