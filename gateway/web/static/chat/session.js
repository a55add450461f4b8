// The conversation that is open, and the answers that are under way in it or in others. Knows stores and answers, not
// the page: it tells of changes as events. "changed": another conversation, or other messages. "message": one of them
// has grown (detail: the message). "started", "ended": an answer has. "asked": the reader has asked something.
// "created": the conversation has its id. "list": the conversations listed are others.

import { answerEvents, stopAnswer } from "./answers.js";
import { newestLeaf, path } from "./tree.js";

const PENDING = "pending-"; // how the id of a message begins that the door does not know yet
let pending = 0;

export class Session extends EventTarget {
  constructor(store) {
    super();
    this.store = store;
    this.conversation = fresh({});
    this.tell = () => {}; // (id): tells other tabs of this browser that a conversation has changed; null: any may have
  }

  #running = new Map(); // by message id: {conversation, message, question, closing}

  get path() {
    return path(this.conversation.messages, this.conversation.head);
  }

  /** The answer under way in the conversation that is open; undefined where none is. */
  get answering() {
    return [...this.#running.values()].find(({ conversation }) => conversation === this.conversation)?.message;
  }

  begin(fields) {
    this.conversation = fresh(fields);
    this.#dispatch("changed");
  }

  /** Throws where there is no such conversation. */
  async open(id) {
    const held = [...this.#running.values()].find(({ conversation }) => conversation.id === id)?.conversation;
    this.conversation = held ?? indexed(await this.store.load(id));
    this.#dispatch("changed");
    this.#followAll();
  }

  /** What another tab, or another machine, has added meanwhile. */
  async refresh() {
    const { id } = this.conversation;
    if (!id || this.answering) return;
    const loaded = indexed(await this.store.load(id));
    if (this.conversation.id !== id || this.answering || same(loaded, this.conversation)) return;
    Object.assign(this.conversation, loaded);
    this.#dispatch("changed");
    this.#followAll();
  }

  send(content) {
    return this.#ask({ parent: this.conversation.head, content });
  }

  /** Another answer beside this one. */
  again(message) {
    return message.retry ? this.#retry(message) : this.#ask({ parent: message.parent });
  }

  /** The question asked otherwise, beside what it was. */
  edit(message, content) {
    return this.#ask({ parent: message.parent, content });
  }

  goOn(message) {
    return this.#ask({ parent: message.parent, continue: message.id });
  }

  async stop() {
    const running = this.#running.get(this.answering?.id);
    if (!running) return;
    if (isPending(running.message)) running.closing.abort();
    else await stopAnswer(running.message.id);
  }

  /** Shows the branch that goes through this message. */
  async show(id) {
    const { conversation } = this;
    conversation.head = newestLeaf(conversation.messages, id);
    this.#dispatch("changed");
    if (conversation.id) await this.store.change(conversation.id, { head: conversation.head });
  }

  /** The title that the store has given. */
  named(title) {
    if (title === this.conversation.title) return;
    this.conversation.title = title;
    this.#dispatch("changed");
  }

  /** `fields`: title, model, system, parameters. */
  async configure(fields) {
    Object.assign(this.conversation, fields);
    this.#dispatch("changed");
    if (!this.conversation.id) return;
    await this.store.change(this.conversation.id, fields);
    this.#changedElsewhere(this.conversation.id);
  }

  /** The conversation was deleted; null: all of them. What is under way in it is let go. */
  removed(id) {
    for (const { conversation, closing } of this.#running.values()) {
      if (id === null || conversation.id === id) closing.abort();
    }
    this.#changedElsewhere(id);
  }

  #retry(message) {
    const { messages } = this.conversation;
    messages.delete(message.id);
    if (message.retry.content !== undefined) messages.delete(message.parent);
    this.conversation.head = message.retry.parent;
    return this.#ask(message.retry);
  }

  // The question and the place of the answer are shown before the door has said anything.
  async #ask(wanted) {
    const { conversation } = this;
    const { parent, content } = wanted;
    if (this.answering) return;
    const question = content === undefined ? null : local("user", parent, { content, id: newId() });
    const cut = conversation.messages.get(wanted.continue);
    const message = cut ?? local("assistant", question?.id ?? parent, { id: newId(), model: conversation.model });
    Object.assign(message, { state: "running", error: null, finish_reason: null });
    if (question) conversation.messages.set(question.id, question);
    conversation.messages.set(message.id, message);
    conversation.head = message.id;
    const running = { conversation, message, question, closing: new AbortController() };
    this.#running.set(message.id, running);
    this.#dispatch("changed");
    this.#dispatch("asked");
    try {
      if (!conversation.id) await this.#create(conversation);
      const { model, parameters } = conversation;
      const begin = (signal) => this.store.answer(conversation, { ...wanted, model, parameters }, signal);
      await this.#follow(running, { begin });
    } catch (fault) {
      this.#failed(running, wanted, fault);
    }
  }

  async #create(conversation) {
    const { model, system, parameters } = conversation;
    const { id, created, title } = await this.store.create({ model, system, parameters });
    Object.assign(conversation, { id, created, title });
    this.#dispatch("created");
  }

  // Answers that were under way when the conversation was loaded.
  #followAll() {
    const { conversation } = this;
    for (const message of conversation.messages.values()) {
      if (message.state !== "running" || this.#running.has(message.id)) continue;
      const running = { conversation, message, question: null, closing: new AbortController() };
      this.#running.set(message.id, running);
      this.#follow(running, { id: message.id }).catch((fault) => this.#failed(running, null, fault));
    }
    this.#dispatch("changed");
  }

  async #follow(running, how) {
    const { conversation, message, closing } = running;
    for await (const [kind, data] of answerEvents({ ...how, signal: closing.signal })) {
      heeded[kind]?.(message, data);
      if (kind === "started") await this.#began(running, data);
      this.#dispatch("message", message);
    }
    this.#running.delete(message.id);
    await this.store.keep(conversation);
    this.#dispatch("ended", message);
    if (conversation === this.conversation) this.#dispatch("changed");
    this.#changedElsewhere(conversation.id);
  }

  // What was shown beforehand gets the ids that the door gave.
  async #began(running, { message: given, user_message: asked }) {
    const { conversation, message, question } = running;
    if (question) rename(conversation, question, asked?.id ?? `${given.id}-question`);
    if (isPending(message)) Object.assign(message, { created: given.created, model: given.model });
    // An answer that goes on in a conversation of the browser's is a new one to the door.
    if (message.id !== given.id) {
      this.#running.delete(message.id);
      rename(conversation, message, given.id);
      this.#running.set(message.id, running);
    }
    await this.store.keep(conversation);
    this.#dispatch("started", message);
    if (conversation === this.conversation) this.#dispatch("changed");
    this.#changedElsewhere(conversation.id);
  }

  #failed({ conversation, message, closing }, wanted, fault) {
    this.#running.delete(message.id);
    message.state = closing.signal.aborted ? "stopped" : "failed";
    message.error = closing.signal.aborted ? null : fault;
    message.reconnecting = message.queue = null;
    // Nothing of it is kept by the door: it is asked again as it was.
    if (wanted && isPending(message)) message.retry = wanted;
    this.#dispatch("ended", message);
    if (conversation === this.conversation) this.#dispatch("changed");
  }

  #changedElsewhere(id) {
    this.#dispatch("list");
    this.tell(id);
  }

  #dispatch(kind, detail = null) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }
}

// What each event does to the message of its answer.
const heeded = {
  started(message, { message: { content, reasoning = "" }, request_id: requestId }) {
    // Followed from its start it is told anew, whatever had been read of it.
    Object.assign(message, { content, reasoning, requestId, queue: null });
  },
  queue(message, { position, eta_seconds: seconds }) {
    Object.assign(message, { queue: { position, seconds }, reconnecting: false });
  },
  delta(message, { text = "", reasoning = "" }) {
    message.content += text;
    message.reasoning += reasoning;
    Object.assign(message, { queue: null, reconnecting: false });
  },
  notice(message, { kind }) {
    message.notice = kind;
  },
  done(message, { state, finish_reason, usage, seconds }) {
    Object.assign(message, { state, finish_reason, usage, seconds, queue: null, reconnecting: false });
  },
  error(message, { error }) {
    Object.assign(message, {
      state: "failed",
      error: { ...error, requestId: message.requestId },
      queue: null,
      reconnecting: false,
    });
  },
  reconnecting(message) {
    message.reconnecting = true;
  },
};

function fresh(fields) {
  return { id: null, title: "", model: "", system: "", parameters: {}, head: null, messages: new Map(), ...fields };
}

function indexed(conversation) {
  return { ...conversation, messages: new Map(conversation.messages.map((message) => [message.id, message])) };
}

// Whether nothing was said, shown or named otherwise meanwhile.
function same(one, other) {
  const seen = ({ messages, head, title, model }) =>
    [messages.size, head, title, model, messages.get(head)?.state].join();
  return seen(one) === seen(other);
}

function newId() {
  return `${PENDING}${++pending}`;
}

function isPending({ id }) {
  return id.startsWith(PENDING);
}

function local(role, parent, fields) {
  return { role, parent, content: "", created: Date.now() / 1000, state: "done", ...fields };
}

function rename(conversation, message, id) {
  const { messages } = conversation;
  messages.delete(message.id);
  for (const child of messages.values()) if (child.parent === message.id) child.parent = id;
  if (conversation.head === message.id) conversation.head = id;
  message.id = id;
  messages.set(id, message);
}
