/** A disk that is really full: a small separate file system, which needs the right to mount. */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { smallService } from '../support/small-service.ts';

let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'trainyard-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', disk]);
});
afterAll(() => {
  execFileSync('umount', [disk]);
  rmSync(disk, { recursive: true });
});

/** Writes until nothing more fits. */
function fill(): void {
  const file = openSync(join(disk, 'filler'), 'w');
  try {
    for (let bytes = 1 << 20; bytes >= 1; bytes >>= 1) {
      try {
        for (;;) writeSync(file, Buffer.alloc(bytes));
      } catch {
        // No space for this much, but maybe for half of it.
      }
    }
  } finally {
    closeSync(file);
  }
}

test('while the disk is full, keys can be revoked and stay revoked', { timeout: 300_000 }, async () => {
  const dataDirectory = join(disk, 'data');
  const service = await smallService({ dataDirectory });
  const ask = (method: string, url: string, key: string, body?: object) =>
    fetch(url, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const names = ['a', 'b', 'c'];
  const keys: { id: string; secret: string }[] = [];
  for (const name of names) {
    const answer = await ask('POST', `${service.url}/keys`, service.apiKey, { name, scopes: ['inference'] });
    keys.push((await answer.json()) as { id: string; secret: string });
  }
  fill();
  const refused = await ask('POST', `${service.url}/keys`, service.apiKey, { name: 'd', scopes: ['inference'] });
  expect(refused.status).toBe(507);
  for (const { id, secret } of keys) {
    expect((await ask('GET', `${service.url}/models`, secret)).status).toBe(200);
    expect((await ask('DELETE', `${service.url}/keys/${id}`, service.apiKey)).status).toBe(200);
    expect((await ask('GET', `${service.url}/models`, secret)).status).toBe(401);
  }
  await service.stop();
  rmSync(join(disk, 'filler'));
  const again = await smallService({ dataDirectory, environment: { TRAINYARD_API_KEY: service.apiKey } });
  try {
    for (const { secret } of keys) expect((await ask('GET', `${again.url}/models`, secret)).status).toBe(401);
  } finally {
    await again.stop();
  }
});
