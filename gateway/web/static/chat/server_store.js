// Conversations kept by the door. The same calls as browser_store.js.

import { ask, askJson } from "../lib/api.js";

const ALL = "/chat/v1/conversations";
const at = (id) => `${ALL}/${encodeURIComponent(id)}`;

export const serverStore = {
  /** {data: [{id, title, model, created, updated}], next}: newest first; `next` goes on as `after`. */
  async list({ search = "", after = "" } = {}) {
    const query = new URLSearchParams(Object.entries({ search, after }).filter(([, value]) => value));
    const { data, has_more, next } = await askJson(`${ALL}?${query}`);
    return { data, next: has_more ? next : null };
  },

  load: (id) => askJson(at(id)),

  create: (fields) => askJson(ALL, { json: fields }),

  change: (id, fields) => askJson(at(id), { method: "PATCH", json: fields }),

  remove: (id) => askJson(at(id), { method: "DELETE" }),

  removeAll: () => askJson(ALL, { method: "DELETE" }),

  async exported(id, format) {
    return (await ask(`${at(id)}/export?format=${format}`)).text();
  },

  /** The answer to `wanted` ({parent, content, model, parameters, continue}) as a stream of events. */
  answer: (conversation, wanted, signal) => ask(`${at(conversation.id)}/answers`, { json: wanted, signal }),

  /** The door has kept the message already. */
  keep: async () => {},
};
