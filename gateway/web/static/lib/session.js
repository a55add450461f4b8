// Who is signed in: {name, role, tenant, groups, ...}, asked once a page.

import { askJson } from "./api.js";

let asked;

export function session() {
  return (asked ??= askJson("/auth/session"));
}
