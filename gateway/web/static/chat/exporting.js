// A conversation as a file to keep. The door exports what it keeps; this is for what only the browser has.

import { path } from "./tree.js";

export function asMarkdown({ title, head, messages }) {
  const shown = path(new Map(messages.map((message) => [message.id, message])), head);
  const parts = shown.map(({ role, content, model }) => `## ${role}${model ? ` (${model})` : ""}\n\n${content}\n`);
  return [`# ${title}\n`, ...parts].join("\n");
}
