import type { BackendMember } from '@trainyard/backend';
import { expect, test, vi } from 'vitest';

import type { ModelInference } from '../../seams/contract/backends.ts';
import { retireUnused, startUnloading } from './retire-unused.ts';

const NOW = 1_790_000_000_000;

function member(adapters: BackendMember['adapters']): BackendMember {
  return { adapters } as BackendMember;
}

test('adapters without a model are retired, unless they may be a step with an unwritten row', async () => {
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
    problem: () => null,
    retire: (digest: string) => void retired.push(digest),
  };
  const checkpoints = {
    unusedDigests: async (digests: readonly string[]) => {
      asked.push(digests);
      return digests.filter((digest) => digest !== 'kept');
    },
  };
  const store = { checkpoints };
  await retireUnused({ store, inference, now: NOW });
  expect(asked).toEqual([['own, deleted', 'kept', 'deleted']]);
  expect(retired).toEqual(['own, deleted', 'deleted']);
  // Remote engines do it themselves.
  await retireUnused({ store, inference: { ...inference, isRemote: true }, now: NOW });
  expect(asked).toHaveLength(1);
});

test('adapters that were there before this process are retired at its start, later ones when they are old, and a failure is tried again', async () => {
  vi.useFakeTimers();
  try {
    let adapters = [{ digest: 'before', since: Date.now() }];
    const retired: string[] = [];
    const logged: string[] = [];
    const inference = {
      models: [{ id: 'base', contextLength: 1, vocabSize: 1 }],
      of: () => ({ adapters: () => adapters }) as unknown as ModelInference,
      problem: () => null,
      retire: (digest: string) => void retired.push(digest),
    };
    let isAway = false;
    const checkpoints = {
      unusedDigests: async (digests: readonly string[]) => {
        if (isAway) throw new Error('the database is away');
        return [...digests];
      },
    };
    const store = { checkpoints };
    const stop = startUnloading({ store, inference, log: (line) => void logged.push(line), everyMs: 60_000 });
    await vi.advanceTimersByTimeAsync(0);
    expect(retired).toEqual(['before']);
    adapters = [{ digest: 'new', since: Date.now() }];
    await vi.advanceTimersByTimeAsync(60_000);
    expect(retired).toEqual(['before']);
    isAway = true;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(logged).toEqual(['adapters of deleted models stay loaded for now: the database is away']);
    isAway = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(retired).toEqual(['before', 'new']);
    await stop();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(retired).toHaveLength(2);
  } finally {
    vi.useRealTimers();
  }
});
