import type { BackendMember } from '@trainyard/backend';
import { expect, test } from 'vitest';

import type { ModelInference } from '../../seams/contract/backends.ts';
import { retireUnused } from './retire-unused.ts';

const NOW = 1_790_000_000_000;

function member(adapters: BackendMember['adapters']): BackendMember {
  return { adapters } as BackendMember;
}

test('adapters on servers that no model has are retired, unless they may be a step whose row is not written yet', async () => {
  const old = NOW - 600_000;
  const members = [
    member([
      { digest: 'kept', since: old },
      { digest: 'deleted', since: old },
    ]),
    member([
      { digest: 'deleted', since: old },
      { digest: 'young', since: NOW - 1_000 },
    ]),
    member(undefined),
  ];
  const retired: string[] = [];
  const asked: (readonly string[])[] = [];
  const inference = {
    models: [{ id: 'base', contextLength: 1, vocabSize: 1 }],
    of: () =>
      ({
        members: () => members,
        adapters: () => [{ digest: 'own, deleted', since: old }],
      }) as unknown as ModelInference,
    trouble: () => null,
    retire: (digest: string) => void retired.push(digest),
  };
  const store = {
    unusedDigests: async (digests: readonly string[]) => {
      asked.push(digests);
      return digests.filter((digest) => digest !== 'kept');
    },
  };
  await retireUnused(store, inference, NOW);
  expect(asked).toEqual([['own, deleted', 'kept', 'deleted']]);
  expect(retired).toEqual(['own, deleted', 'deleted']);
  // Engines elsewhere do it for themselves.
  await retireUnused(store, { ...inference, isElsewhere: true }, NOW);
  expect(asked).toHaveLength(1);
});
