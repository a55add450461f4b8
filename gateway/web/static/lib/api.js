// The door's API as pages ask it: with the session's cookie, and errors as the door tells them.

export class ApiError extends Error {
  constructor(status, { message, code, param } = {}, headers = new Headers()) {
    super(message ?? `HTTP ${status}`);
    this.name = "ApiError";
    this.status = status; // 0: nobody answered
    this.code = code ?? null;
    this.param = param ?? null; // the field that it is about
    this.retryAfter = Number(headers.get("retry-after")) || null; // seconds
    this.requestId = headers.get("x-request-id");
  }
}

/**
 * The answer, when it is a good one; for streams too. `json` is sent as the body.
 * Throws ApiError, or AbortError where `signal` ended it. Without a session the page is left to sign in.
 */
export async function ask(path, { json, headers, ...options } = {}) {
  const sent = { accept: "application/json", ...headers };
  if (json !== undefined) sent["content-type"] = "application/json";
  const body = json === undefined ? options.body : JSON.stringify(json);
  const answer = await reach(path, { method: body ? "POST" : "GET", ...options, headers: sent, body });
  if (answer.ok) return answer;
  if (answer.status === 401) signIn();
  const told = await answer.json().catch(() => ({}));
  throw new ApiError(answer.status, told.error, answer.headers);
}

/** What the answer says; null where it says nothing. */
export async function askJson(path, options) {
  const answer = await ask(path, options);
  return answer.status === 204 ? null : answer.json();
}

/** Leaves the page for the sign-in, which leads back to it. */
export function signIn() {
  const here = location.pathname + location.search;
  location.assign(`/auth/sign-in?return_to=${encodeURIComponent(here)}`);
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new ApiError(0, { message: String(fault.message), code: "unreachable" });
  }
}
