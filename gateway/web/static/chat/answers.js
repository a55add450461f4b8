// One answer as a run of events, whatever the network does meanwhile: when the connection drops, or a lid is closed,
// what was missed is read from the answer's own events and the rest follows live. Knows no page.

import { ApiError, ask } from "../lib/api.js";
import { events } from "./sse.js";

const FIRST_PAUSE = 500; // ms; doubled each time
const LONGEST_PAUSE = 15_000;
const SILENCE = 45_000; // the door says something, if only a comment, three times as often

/**
 * Yields [kind, data] until the answer has ended: started, queue, delta, notice, done, error; and "reconnecting" when
 * the connection is lost. `begin(signal)` asks for the answer; without it the answer `id` is followed from its start.
 * Throws ApiError where the door refuses, and AbortError when `signal` ends it.
 */
export async function* answerEvents({ begin = null, id = null, signal }) {
  let last = null;
  let pause = FIRST_PAUSE;
  for (;;) {
    try {
      const answer = await (begin ? begin(signal) : missed(id, last, signal));
      begin = null;
      for await (const event of events(watched(answer.body))) {
        const data = JSON.parse(event.data);
        [last, pause] = [event.id ?? last, FIRST_PAUSE];
        if (event.event === "started") id = data.message.id;
        yield [event.event, data];
        if (event.event === "done" || event.event === "error") return;
      }
    } catch (fault) {
      const refused = fault instanceof ApiError && fault.status >= 400 && fault.status < 500;
      if (signal.aborted || refused || id === null) throw fault;
    }
    if (id === null) throw new ApiError(0, { code: "unreachable" });
    yield ["reconnecting", {}];
    await awake(pause, signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

export function stopAnswer(id) {
  return ask(`/chat/v1/answers/${encodeURIComponent(id)}/stop`, { method: "POST" });
}

function missed(id, last, signal) {
  const headers = last === null ? {} : { "last-event-id": last };
  return ask(`/chat/v1/answers/${encodeURIComponent(id)}/events`, { headers, signal });
}

// A connection that died while the machine slept says nothing for ever: it is given up when it has been silent.
function watched(body) {
  let timer = 0;
  const heard = (stream) => {
    clearTimeout(timer);
    timer = setTimeout(() => stream.error(new ApiError(0, { code: "silent" })), SILENCE);
  };
  return body.pipeThrough(
    new TransformStream({
      start: heard,
      transform(chunk, stream) {
        heard(stream);
        stream.enqueue(chunk);
      },
      flush: () => clearTimeout(timer),
    }),
  );
}

// Until the time is over, or sooner: when the network or the reader comes back.
function awake(milliseconds, signal) {
  const over = new AbortController();
  return new Promise((go, stop) => {
    const options = { once: true, signal: over.signal };
    const timer = setTimeout(go, milliseconds);
    over.signal.addEventListener("abort", () => clearTimeout(timer));
    addEventListener("online", go, options);
    document.addEventListener("visibilitychange", () => document.hidden || go(), { signal: over.signal });
    signal.addEventListener("abort", () => stop(signal.reason), options);
  }).finally(() => over.abort());
}
