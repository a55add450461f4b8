// Where one provider keeps its clients, sessions and tokens: a Map that outlives a change of its keys.

const GRANTABLE = new Set(['AccessToken', 'AuthorizationCode', 'RefreshToken']);

export function createStore() {
  const records = new Map(); // `<model>:<id>` > payload
  return { records, adapterFor: (model) => new Adapter(records, model) };
}

class Adapter {
  constructor(records, model) {
    this.records = records;
    this.model = model;
  }

  key(id) {
    return `${this.model}:${id}`;
  }

  async upsert(id, payload) {
    this.records.set(this.key(id), payload);
  }

  async find(id) {
    return this.records.get(this.key(id));
  }

  async findByUid(uid) {
    return this.first((payload) => payload.uid === uid);
  }

  async findByUserCode(userCode) {
    return this.first((payload) => payload.userCode === userCode);
  }

  async consume(id) {
    this.records.get(this.key(id)).consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id) {
    this.records.delete(this.key(id));
  }

  async revokeByGrantId(grantId) {
    for (const [key, payload] of this.records) {
      if (payload.grantId === grantId && GRANTABLE.has(key.split(':')[0])) this.records.delete(key);
    }
  }

  first(matches) {
    for (const [key, payload] of this.records) {
      if (key.startsWith(`${this.model}:`) && matches(payload)) return payload;
    }
    return undefined;
  }
}
