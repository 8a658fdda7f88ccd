import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';

import { expect, onTestFinished, test } from 'vitest';

import { openPort } from '../testing/behind-port.ts';
import { ScriptedInference } from '../testing/scripted-inference.ts';
import { askEngine } from './pool/ask-engine.ts';
import { EngineSecret } from './wire/engine-secret.ts';

const SECRET = 'a secret of this test that is long enough';

test('an engine is asked with the secret: well, with a problem, of another secret, silent, gone', async () => {
  const inference = new ScriptedInference();
  const { port, url } = await openPort(inference, { secret: new EngineSecret(SECRET) });
  expect(await askEngine(url, SECRET)).toBeNull();
  inference.healthy = false;
  expect(await askEngine(url, SECRET)).toBe('it responds, but reports a problem: it is being started');
  expect(await askEngine(url, SECRET.toUpperCase())).toMatch(/secret/);
  expect(await askEngine(url, null)).toContain('TRAINYARD_ENGINE_SECRET');
  await port.close();
  expect(await askEngine(url, SECRET)).toMatch(/not reached|refused|ECONNREFUSED/i);

  const silent = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void silent.close());
  await once(silent, 'listening');
  const address = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  expect(await askEngine(address, SECRET)).toContain('did not respond within 3 s');
});
