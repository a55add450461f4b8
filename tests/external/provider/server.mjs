// Many certified providers in one process, and the port on which a test makes and commands them.

import { createServer } from 'node:http';

import { Issuer, inTimeOf, read } from './issuer.mjs';

const issuers = new Map();

const COMMANDS = {
  rotate: (issuer, { keep }) => issuer.rotate(keep),
  keys: (issuer) => issuer.publicKeys(),
  accounts: (issuer, accounts) => void Object.assign(issuer.accounts, accounts),
  client: (issuer, metadata) => issuer.addClient(metadata),
  options: (issuer, options) => void Object.assign(issuer.options, options),
  skew: (issuer, { seconds }) => void (issuer.skew = seconds),
  faults: (issuer, faults) => void (issuer.faults = faults),
  hits: (issuer) => issuer.hits,
  sessions: (issuer) => issuer.sessions(),
  access_token: (issuer, body) => issuer.accessToken(body),
  id_token: (issuer, body) => issuer.idToken(body),
  mint: (issuer, body) => issuer.mint(body),
  log_out: (issuer, { login }) => issuer.logOut(login),
  stop: (issuer) => issuer.close(),
  start: (issuer) => issuer.listen(issuer.port),
};

async function command(path, body) {
  if (path === '/make') {
    const issuer = new Issuer(body);
    await issuer.start();
    issuers.set(String(issuer.port), issuer);
    return { id: String(issuer.port), issuer: issuer.url };
  }
  const [, id, name] = path.split('/');
  const issuer = issuers.get(id);
  if (name === 'remove') {
    issuers.delete(id);
    return issuer.close();
  }
  return inTimeOf(issuer, () => COMMANDS[name](issuer, body));
}

const control = createServer(async (request, response) => {
  try {
    const result = await command(request.url, JSON.parse((await read(request)) || '{}'));
    response.end(JSON.stringify(result ?? null));
  } catch (error) {
    response.writeHead(500).end(String(error.stack));
  }
});
control.listen(0, '127.0.0.1', () => console.log(control.address().port));
// Ends with the test that started it, however that ended.
process.stdin.resume().on('end', () => process.exit());
