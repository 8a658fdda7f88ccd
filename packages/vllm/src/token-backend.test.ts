import { describeTokenBackend, type TokenBackendHarness } from '@trainyard/backend/testing';
import { byteTokenizer } from '@trainyard/engine/testing';
import { FakeVllm, type FakeVllmOptions } from './testing/fake-vllm.ts';
import { openBrain } from './testing/open-brain.ts';
import { VllmBackend, type VllmBackendOptions } from './vllm-backend.ts';

const KINDS: Record<
  string,
  { numServers?: number; fake?: Partial<FakeVllmOptions>; options?: Partial<VllmBackendOptions> }
> = {
  'one vLLM server': { options: { schedulingPolicy: 'priority' } },
  'three of them': { numServers: 3, options: { schedulingPolicy: 'priority' } },
  'minimal reports': {
    fake: { hasDocument: false, tellsSettings: false, version: null, policy: 'fcfs' },
  },
  'one with processed log-probabilities': { fake: { logprobsMode: 'processed', policy: 'fcfs' } },
};

for (const [name, kind] of Object.entries(KINDS)) describeTokenBackend(name, () => open(kind));

async function open({ numServers = 1, fake, options }: (typeof KINDS)[string]): Promise<TokenBackendHarness> {
  const fakes = await Promise.all(
    Array.from({ length: numServers }, () => FakeVllm.open({ brain: openBrain(), maxLogprobs: 1000, ...fake })),
  );
  const urls = fakes.map(({ url }) => url);
  return {
    backend: new VllmBackend({
      urls,
      modelId: 'scripted',
      ends: byteTokenizer,
      maxRequests: 64,
      log: () => {},
      ...options,
    }),
    promptIds: [...Buffer.from('a prompt of a test')],
    adapters: [
      { digest: 'one', directory: 'one' },
      { digest: 'another', directory: 'another' },
    ],
    tolerance: 1e-6,
    close: async () => {
      await Promise.all(fakes.map((one) => one.close()));
      const unknown = fakes.flatMap(({ unknownFields }) => [...unknownFields]);
      if (unknown.length > 0) throw new Error(`vLLM knows no field ${unknown.join(', ')}`);
    },
  };
}
