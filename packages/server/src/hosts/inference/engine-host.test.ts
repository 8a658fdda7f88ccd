import { fileURLToPath } from 'node:url';

import { expect, onTestFinished, test } from 'vitest';

import { ComputeArbiter } from '../computing/compute-arbiter.ts';
import { EmbeddedInference } from '../pool/embedded-inference.ts';
import { RequestCapacity } from '../pool/request-capacity.ts';
import { SCRIPTED_REQUEST } from '../../testing/scripted-answers.ts';

async function startHost(): Promise<EmbeddedInference> {
  const inference = new EmbeddedInference({
    name: 'engine',
    host: { modelId: 'tiny/base', modelPath: '', maxRequests: 8, driver: { name: 'fixture', settings: null } },
    modulePath: fileURLToPath(new URL('./engine-host.fixture.ts', import.meta.url)),
    capacity: new RequestCapacity(8),
    onIdle: () => {},
    arbiter: new ComputeArbiter(),
    share: 1,
    log: () => {},
  });
  onTestFinished(() => inference.close());
  await inference.start();
  return inference;
}

const request = (fields: object) => ({
  ...SCRIPTED_REQUEST,
  prompt: { kind: 'text', text: 'x', addSpecialTokens: false } as const,
  ignoreEos: true,
  ...fields,
});

const STALL_MS = 1_500;

test('an engine does not run ahead of an API process that reads too slowly', async () => {
  const inference = await startHost();
  const { signal } = new AbortController();
  // About 100 KB per step.
  const large = inference.generate(request({ n: 32, maxTokens: 1_000, logprobs: 20 }), signal);
  await large.next();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STALL_MS);
  for await (const event of inference.generate(request({ n: 1, maxTokens: 1, tenant: 'other' }), signal)) {
    if (event.kind === 'failed') throw new Error(event.message);
  }
  // Only a few steps are in transit between the two processes, however long the stall.
  expect(inference.stats()!.numSteps).toBeLessThan(40);
  await large.return!();
});
