// What is new replaces nothing: a name that is taken is refused, for PUT would take it over.

import { askJson } from "../lib/api.js";
import { say } from "./words/frame.js";

export function taken(name) {
  return Object.assign(new Error(say("taken", { name })), { param: "id" });
}

/** Throws where there is something at this path of the API. */
export async function unlessTaken(path, name) {
  try {
    await askJson(path);
  } catch (fault) {
    if (fault.status === 404) return;
    throw fault;
  }
  throw taken(name);
}
