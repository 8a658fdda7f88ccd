/**
 * A service of its own process over a back end that answers at once, for whoever measures what the service itself costs:
 *
 *   node --conditions=@trainyard/source packages/server/src/testing/instant-main.ts
 *
 * All but sampling is the real thing: HTTP, keys, checks, the store, the text host in a process of its own with its templates and tokens. It listens on a free
 * port of the loopback interface, prints `URL <…>/v1` and `KEY <…>`, and ends when its standard input does. The model `instant` says `word word …`, a token a
 * byte, up to `max_tokens`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { FolderBlobs, openSqliteStore } from '@trainyard/store';

import { ComputeArbiter } from '../computing/compute-arbiter.ts';
import { createServer } from '../create-server.ts';
import { EmbeddedInference } from '../inference/embedded-inference.ts';
import { InferencePool } from '../inference/inference-pool.ts';
import { RequestRoom } from '../inference/request-room.ts';
import { RecordingQueue, RecordingTransfers } from './test-server.ts';

const MODEL = 'instant';
/** The service's default. */
const MAX_REQUESTS = 2048;

const directory = await mkdtemp(join(tmpdir(), 'trainyard-instant-'));
const store = await openSqliteStore(join(directory, 'trainyard.db'));
const blobs = await FolderBlobs.open(join(directory, 'blobs'));
const room = new RequestRoom(MAX_REQUESTS);
const log = (line: string) => console.error(line);
const inference = new InferencePool({
  models: [{ id: MODEL, served: null, bytes: 1 }],
  open: (_id, onIdle) =>
    new EmbeddedInference({
      name: 'text',
      host: { modelId: MODEL, modelPath: '', maxRequests: MAX_REQUESTS, driver: { name: 'instant', settings: null } },
      modulePath: fileURLToPath(new URL('./instant-host.ts', import.meta.url)),
      room,
      onIdle,
      arbiter: new ComputeArbiter(),
      share: 1,
      log,
    }),
  budgetBytes: 1,
  room,
  log,
});
await inference.start();
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
const { id: entityId } = await store.ensureEntity('bench');
const { secret } = await store.createKey({ entityId, name: 'bench', scopes: ['inference'] });
const url = await app.listen({ port: 0, host: '127.0.0.1' });
console.log(`URL ${url}/v1\nKEY ${secret}`);

process.stdin.resume().once('end', () => void close());

async function close(): Promise<void> {
  await app.close();
  await inference.close();
  await store.close();
  await blobs.close();
  await rm(directory, { recursive: true, force: true });
  process.exit(0);
}
