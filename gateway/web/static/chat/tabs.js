// Tabs of one browser tell each other what has changed; what was changed elsewhere is seen when the reader comes back.

/** `heed(id)`: the conversation `id` has changed in another tab; null: any may have. Gives the function that tells. */
export function amongTabs(subject, heed) {
  const channel = new BroadcastChannel(`sekisho-chat-${subject}`);
  channel.addEventListener("message", ({ data }) => heed(data));
  document.addEventListener("visibilitychange", () => document.hidden || heed(null));
  return (id) => channel.postMessage(id);
}
