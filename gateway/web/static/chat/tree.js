// Messages as a tree: an edited question or a second answer is a branch beside the first. Pure; knows no page.

/** From the first message to `head`: what is shown. `messages`: a Map by id. */
export function path(messages, head) {
  const found = [];
  for (let message = messages.get(head); message; message = messages.get(message.parent)) found.unshift(message);
  return found;
}

/** The branches at this place, oldest first; the message itself is one, and an answer that never was is none. */
export function siblings(messages, message) {
  const there = (one) => one === message || one.content || one.state === "running";
  return [...messages.values()]
    .filter((one) => one.parent === message.parent && one.role === message.role && there(one))
    .sort(byAge);
}

/** The leaf that is reached from here by the newest message each time. */
export function newestLeaf(messages, id) {
  const children = [...messages.values()].filter((one) => one.parent === id).sort(byAge);
  return children.length ? newestLeaf(messages, children.at(-1).id) : id;
}

/** What an engine is sent for an answer below `id`: role and content alone. */
export function asPrompt(messages, id, system) {
  const said = path(messages, id).map(({ role, content }) => ({ role, content }));
  return system ? [{ role: "system", content: system }, ...said] : said;
}

function byAge(one, other) {
  return one.created - other.created || (one.id < other.id ? -1 : 1);
}
