// Somebody disabled or enabled: people and programs alike.

import { askJson } from "../lib/api.js";
import { act } from "./act.js";
import { say } from "./words/people.js";

/** path: of the record, which says whether it is disabled. */
export function switchAct(here, path, { disabled }, name) {
  const turn = (to) => askJson(path, { method: "PATCH", json: { disabled: to } });
  const way = disabled ? "enable" : "disable";
  return act({
    title: say(way),
    says: say(`${way}_says`, { name }),
    danger: !disabled,
    run: () => turn(!disabled),
    done: () => say(`${way}_done`, { name }),
    undo: () => () => turn(disabled),
    then: here.again,
  });
}
