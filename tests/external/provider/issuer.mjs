// One certified provider on a port of its own, with what a test may do to it: new keys, another clock, faults, logout.

import { AsyncLocalStorage } from 'node:async_hooks';
import { createServer } from 'node:http';

import { SignJWT, exportJWK, generateKeyPair, importJWK } from 'jose';
import Provider from 'oidc-provider';

import { createStore } from './store.mjs';

const ALGORITHMS = ['RS256', 'ES256'];
const RESOURCE_SCOPE = 'openid profile email ask';

// Each provider has a clock of its own: what it does sees the skew that the test has set.
const clock = new AsyncLocalStorage();
const now = Date.now.bind(Date);
Date.now = () => now() + (clock.getStore()?.skew ?? 0) * 1000;

let keysMade = 0;

async function makeKeys() {
  keysMade += 1;
  const number = keysMade;
  return Promise.all(ALGORITHMS.map(async (alg) => {
    const { privateKey } = await generateKeyPair(alg, { extractable: true });
    return { ...(await exportJWK(privateKey)), kid: `${alg.toLowerCase()}-${number}`, alg, use: 'sig' };
  }));
}

// Making RSA keys is slow. Issuers start with one of a few sets in turn, so that any two of a test differ.
const first = [makeKeys(), makeKeys(), makeKeys()];
let issuersMade = 0;

const publicPart = ({ d, p, q, dp, dq, qi, ...rest }) => rest; // eslint-disable-line no-unused-vars

export class Issuer {
  constructor(options) {
    this.options = { accessTokenSeconds: 3600, idTokenSeconds: 3600, rotateRefreshTokens: true, ...options };
    this.accounts = {}; // login > claims beside sub
    this.store = createStore();
    this.hits = {}; // path > number of requests
    this.faults = {}; // path > {status, body, headers, delay, times}
    this.skew = 0;
  }

  async start() {
    this.keys = await first[issuersMade++ % first.length];
    await this.listen(0);
    this.url = `http://127.0.0.1:${this.port}`;
    this.rebuild();
  }

  listen(port) {
    this.server = createServer((request, response) => clock.run(this, () => this.handle(request, response)));
    return new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen(port, '127.0.0.1', () => {
        this.port = this.server.address().port;
        resolve();
      });
    });
  }

  close() {
    return new Promise((resolve) => {
      this.server.close(resolve);
      this.server.closeAllConnections();
    });
  }

  // The provider takes its keys when it is made. Its store, and so every session, stays.
  rebuild() {
    this.provider = new Provider(this.url, this.configuration());
    this.provider.on('server_error', (_ctx, error) => console.error(error));
    this.provider.on('backchannel.error', (_ctx, error) => console.error(error));
  }

  configuration() {
    const resource = (audience) => ({
      scope: RESOURCE_SCOPE,
      audience,
      accessTokenFormat: 'jwt',
      accessTokenTTL: this.options.accessTokenSeconds,
      jwt: { sign: { alg: 'RS256' } },
    });
    return {
      adapter: (model) => this.store.adapterFor(model),
      jwks: { keys: this.keys },
      cookies: { keys: ['of the tests alone'] },
      claims: {
        openid: ['sub', 'groups', 'roles', 'realm_access', 'hasgroups', '_claim_names', '_claim_sources'],
        profile: ['name', 'preferred_username'],
        email: ['email', 'email_verified'],
      },
      scopes: ['openid', 'profile', 'email', 'offline_access', 'ask'],
      // Claims in the ID token itself, as Keycloak and Entra put them, unless a test wants them in the userinfo alone.
      conformIdTokenClaims: this.options.conformIdTokenClaims ?? false,
      enabledJWA: { idTokenSigningAlgValues: ALGORITHMS },
      features: {
        devInteractions: { enabled: false },
        backchannelLogout: { enabled: true },
        clientCredentials: { enabled: true },
        rpInitiatedLogout: { enabled: true, logoutSource, postLogoutSuccessSource },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_ctx, audience) => resource(audience),
          useGrantedResource: () => true,
        },
      },
      extraTokenClaims: (_ctx, token) => this.accounts[token.accountId],
      findAccount: (_ctx, id) => (id in this.accounts
        ? { accountId: id, claims: () => ({ sub: id, ...this.accounts[id] }) }
        : undefined),
      interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
      issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
      rotateRefreshToken: () => this.options.rotateRefreshTokens,
      loadExistingGrant: consentToEverything,
      ttl: {
        AccessToken: () => this.options.accessTokenSeconds,
        IdToken: () => this.options.idTokenSeconds,
        Session: 86_400,
        Grant: 86_400,
        RefreshToken: 86_400,
        Interaction: 600,
      },
      renderError: (ctx, out) => {
        ctx.type = 'json';
        ctx.body = out;
      },
      fetch: (url, { dispatcher, ...options }) => fetch(url, options), // eslint-disable-line no-unused-vars
    };
  }

  async handle(request, response) {
    const path = request.url.split('?')[0];
    this.hits[path] = (this.hits[path] ?? 0) + 1;
    const fault = this.faults[path];
    if (fault) {
      if (fault.times && --fault.times === 0) delete this.faults[path];
      if (fault.delay) await new Promise((resolve) => { setTimeout(resolve, fault.delay * 1000); });
      if (fault.status) {
        response.writeHead(fault.status, fault.headers ?? {});
        response.end('size' in fault ? Buffer.alloc(fault.size, ' ') : fault.body ?? '');
        return;
      }
    }
    if (path.startsWith('/interaction/')) await this.interact(request, response);
    else await this.provider.callback()(request, response);
  }

  // The form where people say who they are. Their word is enough.
  async interact(request, response) {
    if (request.method !== 'POST') {
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end(`<!doctype html><title>Provider</title><form method="post">
<input name="login" autofocus><button name="do" value="sign-in">Sign in</button>
<button name="do" value="cancel">Cancel</button></form>`);
      return;
    }
    const form = new URLSearchParams(await read(request));
    const login = form.get('login') ?? '';
    const result = form.get('do') !== 'cancel' && login in this.accounts
      ? { login: { accountId: login } }
      : { error: 'access_denied', error_description: 'End-User aborted interaction' };
    await this.provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  }

  async rotate(keep) {
    const made = await makeKeys();
    this.keys = keep ? [...made, ...this.keys] : made; // the first of an algorithm signs
    this.rebuild();
  }

  publicKeys() {
    return this.keys.map(publicPart);
  }

  async addClient(metadata) {
    await this.store.adapterFor('Client').upsert(metadata.client_id, metadata);
  }

  // An access token as the token endpoint would give it out, without a browser.
  async accessToken({ login, client, audience, scope = 'openid' }) {
    const found = await this.provider.Client.find(client);
    const token = new this.provider.AccessToken({ accountId: login, client: found, scope, extra: this.accounts[login] });
    token.resourceServer = new this.provider.ResourceServer(
      audience,
      this.configuration().features.resourceIndicators.getResourceServerInfo(undefined, audience),
    );
    return token.save();
  }

  async idToken({ login, client, nonce }) {
    const found = await this.provider.Client.find(client);
    const token = new this.provider.IdToken({ sub: login, ...this.accounts[login] }, { client: found });
    token.scope = 'openid profile email';
    if (nonce !== undefined) token.set('nonce', nonce);
    return token.issue({ use: 'idtoken' });
  }

  // Any claims under any header, signed with a key of this provider, or with one that it has never published.
  async mint({ claims, header = {}, alg = 'RS256', foreign = false }) {
    const [own] = this.keys.filter((key) => key.alg === alg);
    const key = foreign ? (await makeKeys()).find((made) => made.alg === alg) : own;
    return new SignJWT(claims).setProtectedHeader({ alg, kid: own.kid, ...header }).sign(await importJWK(key, alg));
  }

  sessions() {
    const found = [...this.store.records].filter(([key]) => key.startsWith('Session:'));
    return found.map(([, { accountId, authorizations }]) => ({ login: accountId, authorizations }));
  }

  // What an administrator of the provider does: end a person's sessions and tell every client.
  async logOut(login) {
    const told = [];
    for (const [key, session] of [...this.store.records]) {
      if (!key.startsWith('Session:') || session.accountId !== login) continue;
      for (const [clientId, { sid, grantId }] of Object.entries(session.authorizations ?? {})) {
        const client = await this.provider.Client.find(clientId);
        if (client?.backchannelLogoutUri) {
          await client.backchannelLogout(login, sid);
          told.push({ clientId, sid });
        }
        if (grantId) await this.store.adapterFor('RefreshToken').revokeByGrantId(grantId);
      }
      this.store.records.delete(key);
    }
    return told;
  }
}

async function consentToEverything(ctx) {
  const { provider, client, session } = ctx.oidc;
  const grantId = session.grantIdFor(client.clientId);
  const grant = (grantId && (await provider.Grant.find(grantId)))
    ?? new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope('openid profile email offline_access ask');
  for (const resource of [ctx.oidc.params.resource ?? []].flat()) grant.addResourceScope(resource, RESOURCE_SCOPE);
  await grant.save();
  return grant;
}

async function logoutSource(ctx, form) {
  ctx.body = `<!doctype html><title>Sign out</title>${form}
<button type="submit" form="op.logoutForm" name="logout" value="yes">Sign out</button>`;
}

async function postLogoutSuccessSource(ctx) {
  ctx.body = '<!doctype html><title>Signed out</title>Signed out.';
}

export async function read(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

export const inTimeOf = (issuer, act) => clock.run(issuer, act);
