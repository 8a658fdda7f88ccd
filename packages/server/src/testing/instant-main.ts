/**
 * A service in its own process over a back end that answers at once, to measure the cost of the service
 * itself:
 *
 *   node --conditions=@trainyard/source packages/server/src/testing/instant-main.ts [--behind-port]
 *
 * Everything except sampling is real: HTTP, keys, checks, the store, the text host in its own process with
 * its templates and tokens. It listens on a free loopback port, prints `URL <…>/v1` and `KEY <…>`, and ends
 * with its standard input. The model `instant` replies `word word …`, one token per byte, up to `max_tokens`.
 * `--behind-port`: in another process, over its port, like an engine on another machine.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { FolderBlobs, openSqliteStore } from '@trainyard/store';

import { createServer } from '../gateway/create-server.ts';
import { engineMember, MemberList, openEngines } from './behind-port.ts';
import { MAX_REQUESTS, openInstantPool } from './instant-pool.ts';
import { RecordingQueue, RecordingTransfers } from './test-server.ts';

const directory = await mkdtemp(join(tmpdir(), 'trainyard-instant-'));
const store = await openSqliteStore(join(directory, 'trainyard.db'));
const blobs = await FolderBlobs.open(join(directory, 'blobs'));
const log = (line: string) => console.error(line);
const engine = process.argv.includes('--behind-port') ? await startEngine() : null;
const inference =
  engine === null
    ? await openInstantPool(log)
    : await openEngines(new MemberList([engineMember(engine.url)]), { maxRequests: MAX_REQUESTS, log });
const transfers = new RecordingTransfers();
const app = createServer({
  store,
  blobs,
  inference,
  training: new RecordingQueue(),
  exports: transfers,
  imports: transfers,
  log,
});
const { id: entityId } = await store.keys.ensureEntity('bench');
const { secret } = await store.keys.create({ entityId, name: 'bench', scopes: ['inference'] });
const url = await app.listen({ port: 0, host: '127.0.0.1' });
console.log(`URL ${url}/v1\nKEY ${secret}`);

process.stdin.resume().once('end', () => void close());

async function close(): Promise<void> {
  await app.close();
  await inference.close();
  await engine?.stop();
  await store.close();
  await blobs.close();
  await rm(directory, { recursive: true, force: true });
  process.exit(0);
}

async function startEngine(): Promise<{ url: string; stop(): Promise<void> }> {
  const path = fileURLToPath(new URL('./instant-engine.ts', import.meta.url));
  const child = spawn(process.execPath, [...process.execArgv, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async () => {
    child.stdin.end();
    await ended;
  };
  for await (const line of createInterface(child.stdout)) {
    const [, url] = /^ENGINE (\S+)$/.exec(line) ?? [];
    if (url !== undefined) return { url, stop };
  }
  throw new Error('the engine ended before it was ready');
}
