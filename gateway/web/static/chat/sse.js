// Server-sent events out of the body of an answer, as the HTML standard reads them. EventSource itself cannot POST.

/** Yields {id, event, data} as they come in; comments are left out. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop();
      for (const part of parts) {
        const event = parse(part);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The event of these lines; null for a comment. */
export function parse(lines) {
  const event = { id: null, event: "message", data: null };
  for (const line of lines.split(/\r?\n/)) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
    else if (name === "id" || name === "event") event[name] = value;
  }
  return event.data === null ? null : event;
}
