import { beforeEach, expect, test } from 'vitest';

import type { InferenceRequest } from '../../seams/contract/backends.ts';
import type { Tokenized } from '../../seams/contract/backends.ts';
import type { ServedModel } from '../process/opened-text.ts';
import { replies } from '../../testing/scripted-inference.ts';
import { BackendFailure } from '../../seams/faults/backend-failure.ts';
import type { ModelCheck } from '../../seams/integrity/model-check.ts';
import { InferencePool, type ModelHost } from './inference-pool.ts';
import { RequestCapacity } from './request-capacity.ts';

const FACTS = { architecture: 'tiny', contextLength: 64, vocabSize: 100 } as const;
const tokenizer = { chatTemplate: null, bosTokenId: null, eosTokenId: 0, addsBos: false };
const servedAs = (id: string): ServedModel => ({ ...FACTS, path: `/${id}.gguf`, tokenizer });
const NEVER = new AbortController().signal;

/** A host that loads, answers and ends on the test's command. */
class ScriptedHost implements ModelHost {
  readonly id: string;
  readonly loading = Promise.withResolvers<void>();
  readonly closing = Promise.withResolvers<void>();
  readonly servedModel: ServedModel;
  isClosed = false;
  numRunning = 0;
  reason: string | null = null;
  /** Awaited by the next generation; null: it ends at once. */
  gate: Promise<void> | null = null;
  readonly #onIdle: () => void;

  constructor(id: string, onIdle: () => void) {
    this.id = id;
    this.servedModel = servedAs(id);
    this.#onIdle = onIdle;
  }

  start(): Promise<void> {
    return this.loading.promise;
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.loading.reject(new Error('closed'));
    await this.closing.promise;
  }

  get isIdle(): boolean {
    return this.numRunning === 0;
  }

  async *generate(request: InferenceRequest): AsyncGenerator<never> {
    this.numRunning += 1;
    try {
      await this.gate;
      for (const event of replies(request, [{ ids: [1], text: this.id }])) yield event as never;
    } finally {
      this.numRunning -= 1;
      this.#onIdle();
    }
  }

  tokenize(): Promise<Tokenized> {
    return Promise.resolve({ tokenIds: [1], texts: [this.id] });
  }

  detokenize(): Promise<string> {
    return Promise.resolve(this.id);
  }

  tokenTexts(): Promise<string[]> {
    return Promise.resolve([this.id]);
  }

  tokenizerFacts() {
    return tokenizer;
  }

  readonly retired: string[] = [];

  retire(digest: string): void {
    this.retired.push(digest);
  }

  problem(): string | null {
    return this.reason;
  }

  stats(): null {
    return null;
  }
}

let opened: ScriptedHost[];
let logged: string[];
let capacity: RequestCapacity;
beforeEach(() => {
  opened = [];
  logged = [];
  capacity = new RequestCapacity(4);
});

/** Pool of models by size; hosts load and end at once unless `isManual`. */
async function poolOf(
  sizes: Record<string, number>,
  options: { budget: number; memoryWaitMs?: number; isManual?: boolean; files?: ModelCheck },
): Promise<InferencePool> {
  const pool = new InferencePool({
    ...(options.files && { files: options.files }),
    models: Object.entries(sizes).map(([id, bytes]) => ({ id, served: servedAs(id), bytes: bytes * 1e6 })),
    budgetBytes: options.budget * 1e6,
    memoryWaitMs: options.memoryWaitMs ?? 1e9,
    capacity,
    log: (line) => logged.push(line),
    open: (id, onIdle) => {
      const host = new ScriptedHost(id, onIdle);
      if (options.isManual !== true || opened.length === 0) {
        host.loading.resolve();
        host.closing.resolve();
      }
      opened.push(host);
      return host;
    },
  });
  await pool.start();
  return pool;
}

const request = (n = 1) => ({ n, logprobs: null }) as unknown as InferenceRequest;
/** Text of a reply. */
async function ask(pool: InferencePool, id: string, signal = NEVER): Promise<string> {
  let text = '';
  for await (const event of pool.of(id).generate(request(), signal)) if (event.kind === 'delta') text += event.text;
  return text;
}
const ids = () => opened.map(({ id }) => id);
const turn = () => new Promise((resolve) => setImmediate(resolve));

test('the first model is loaded at the start, the others when they are asked', async () => {
  const pool = await poolOf({ a: 1, b: 1 }, { budget: 10 });
  expect(ids()).toEqual(['a']);
  expect(await ask(pool, 'b')).toBe('b');
  expect([await ask(pool, 'a'), ids()]).toEqual(['a', ['a', 'b']]);
  expect(pool.models.map(({ id }) => id)).toEqual(['a', 'b']);
  expect([pool.pathOf('b'), pool.pathOf('c')]).toEqual(['/b.gguf', null]);
});

test('all concurrent requests wait for one load', async () => {
  const pool = await poolOf({ a: 1, b: 1 }, { budget: 10, isManual: true });
  const asked = [ask(pool, 'b'), ask(pool, 'b'), pool.of('b').detokenize([1], { signal: NEVER })];
  await turn();
  expect(ids()).toEqual(['a', 'b']);
  expect(await ask(pool, 'a')).toBe('a');
  opened[1]!.loading.resolve();
  expect(await Promise.all(asked)).toEqual(['b', 'b', 'b']);
  expect(ids()).toEqual(['a', 'b']);
});

test('the least recently used model makes room, and comes back when it is asked again', async () => {
  const pool = await poolOf({ a: 4, b: 4, c: 4 }, { budget: 8 });
  await ask(pool, 'b');
  await ask(pool, 'a');
  expect(await ask(pool, 'c')).toBe('c');
  expect(opened.map(({ isClosed }) => isClosed)).toEqual([false, true, false]);
  expect(await ask(pool, 'b')).toBe('b');
  expect([ids(), opened[0]!.isClosed]).toEqual([['a', 'b', 'c', 'b'], true]);
});

test('as many models are unloaded as needed, and none if that would not suffice', async () => {
  const pool = await poolOf({ a: 2, b: 2, c: 2, d: 5 }, { budget: 6 });
  await ask(pool, 'b');
  await ask(pool, 'c');
  const busy = Promise.withResolvers<void>();
  opened[0]!.gate = busy.promise;
  const answer = ask(pool, 'a');
  const waiting = ask(pool, 'd');
  await turn();
  // Unloading all but the busy one would give 4 of 5.
  expect(opened.map(({ isClosed }) => isClosed)).toEqual([false, false, false]);
  busy.resolve();
  expect([await answer, await waiting]).toEqual(['a', 'd']);
  expect(opened.map(({ isClosed }) => isClosed)).toEqual([true, true, true, false]);
});

test('a model in use stays; a request waits until it is free, and the memory really given back', async () => {
  const pool = await poolOf({ a: 4, b: 4 }, { budget: 6, isManual: true });
  const busy = Promise.withResolvers<void>();
  const [a] = opened;
  a!.gate = busy.promise;
  const answer = ask(pool, 'a');
  const waiting = ask(pool, 'b');
  await turn();
  expect([a!.isClosed, ids()]).toEqual([false, ['a']]);
  busy.resolve();
  expect(await answer).toBe('a');
  await turn();
  expect(a!.isClosed).toBe(true);
  await expect.poll(ids).toEqual(['a', 'b']);
  opened[1]!.loading.resolve();
  expect(await waiting).toBe('b');
});

test('a tokenised model is still in memory when it is sampled from', async () => {
  const pool = await poolOf({ a: 4, b: 4 }, { budget: 4 });
  const both = async (id: string) => {
    await pool
      .of(id)
      .tokenize({ kind: 'text', text: 'x', addSpecialTokens: false }, { withTexts: false, signal: NEVER });
    return ask(pool, id);
  };
  expect(await Promise.all([both('b'), both('a'), both('b')])).toEqual(['b', 'a', 'b']);
  expect(ids()).toEqual(['a', 'b', 'a']);
});

test('a request that timed out waiting for memory names the setting to raise', async () => {
  const pool = await poolOf({ a: 4, b: 4 }, { budget: 6, memoryWaitMs: 5 });
  const busy = Promise.withResolvers<void>();
  opened[0]!.gate = busy.promise;
  const answer = ask(pool, 'a');
  await expect(ask(pool, 'b')).rejects.toMatchObject({
    code: 'server.unavailable',
    message: expect.stringMatching(
      /`b`.* needs 4 MB, the models in use need 4 MB, and `--model-memory-megabytes` is 6/,
    ),
    headers: { 'retry-after': '5' },
  });
  expect(capacity.numInFlight).toBe(0);
  busy.resolve();
  expect(await answer).toBe('a');
  // The request that waited for it has left.
  await turn();
  expect(ids()).toEqual(['a']);
  expect(await ask(pool, 'b')).toBe('b');
});

test('the time to wait for room is not that of loading', async () => {
  const pool = await poolOf({ a: 1, b: 1 }, { budget: 6, memoryWaitMs: 1, isManual: true });
  const waiting = ask(pool, 'b');
  await new Promise((resolve) => setTimeout(resolve, 20));
  opened[1]!.loading.resolve();
  expect(await waiting).toBe('b');
});

test('no request overtakes a model that waits for memory', async () => {
  const pool = await poolOf({ a: 4, b: 6, c: 1 }, { budget: 6 });
  const busy = Promise.withResolvers<void>();
  opened[0]!.gate = busy.promise;
  const answers = [ask(pool, 'a'), ask(pool, 'b'), ask(pool, 'c')];
  await turn();
  expect(ids()).toEqual(['a']);
  busy.resolve();
  expect(await Promise.all(answers)).toEqual(['a', 'b', 'c']);
  expect(ids()).toEqual(['a', 'b', 'c']);
});

test('a failed load answers all waiters, without the reason, and is tried again', async () => {
  const pool = await poolOf({ a: 1, b: 1 }, { budget: 6, isManual: true });
  const asked = [ask(pool, 'b'), ask(pool, 'b')];
  const refused = Promise.allSettled(asked);
  await turn();
  opened[1]!.loading.reject(new Error('no /secret/b.gguf'));
  for (const outcome of await refused) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'server.unavailable' } });
    expect(String((outcome as PromiseRejectedResult).reason)).not.toContain('secret');
  }
  expect(logged).toEqual(['the base model b cannot be loaded: no /secret/b.gguf']);
  const again = ask(pool, 'b');
  await turn();
  opened[2]!.loading.resolve();
  expect(await again).toBe('b');
});

test('a client that leaves while it waits leaves no waiter', async () => {
  const pool = await poolOf({ a: 4, b: 4, c: 1 }, { budget: 4 });
  const busy = Promise.withResolvers<void>();
  opened[0]!.gate = busy.promise;
  const answer = ask(pool, 'a');
  const client = new AbortController();
  const left = ask(pool, 'b', client.signal);
  await turn();
  expect(capacity.numInFlight).toBe(1);
  client.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  await expect(ask(pool, 'b', client.signal)).rejects.toThrow('gone');
  expect(capacity.numInFlight).toBe(0);
  busy.resolve();
  await answer;
  expect(await ask(pool, 'c')).toBe('c');
  expect(ids()).toEqual(['a', 'c']);
});

test('requests that wait for a model count among those in flight', async () => {
  const pool = await poolOf({ a: 1, b: 1 }, { budget: 6, isManual: true });
  const asked = Array.from({ length: 4 }, () => ask(pool, 'b'));
  await turn();
  expect(() => pool.checkCapacity()).toThrow('at most 4 requests may be in flight, got 4');
  await expect(ask(pool, 'b')).rejects.toMatchObject({ code: 'engine.overloaded' });
  opened[1]!.loading.resolve();
  await Promise.all(asked);
  expect(() => pool.checkCapacity()).not.toThrow();
});

test('closing ends a load, and rejects its waiters', async () => {
  const pool = await poolOf({ a: 1, b: 1 }, { budget: 6, isManual: true });
  const waiting = ask(pool, 'b').catch((error: unknown) => error);
  await turn();
  opened[1]!.closing.resolve();
  await pool.close();
  expect(await waiting).toMatchObject({ code: 'server.unavailable' });
  expect(opened.map(({ isClosed }) => isClosed)).toEqual([true, true]);
  await expect(ask(pool, 'b')).rejects.toThrow('shutting down');
  expect(ids()).toEqual(['a', 'b']);
});

test('the problem is that of the models in memory, by name', async () => {
  const pool = await poolOf({ a: 1, b: 1 }, { budget: 6 });
  expect(await pool.problem()).toBeNull();
  await ask(pool, 'b');
  [opened[0]!.reason, opened[1]!.reason] = ['it is being started', 'it hangs'];
  expect(await pool.problem()).toBe('a: it is being started; b: it hangs');
  const alone = await poolOf({ a: 1 }, { budget: 6 });
  opened.at(-1)!.reason = 'it hangs';
  expect(await alone.problem()).toBe('it hangs');
});

test('models in memory hear of adapters that are retired', async () => {
  const pool = await poolOf({ a: 1, b: 1 }, { budget: 6 });
  pool.retire('first');
  await ask(pool, 'b');
  pool.retire('second');
  expect(opened.map(({ retired }) => retired)).toEqual([['first', 'second'], ['second']]);
});

test('a first model that cannot be loaded is reported with its own error', async () => {
  const pool = new InferencePool({
    models: [{ id: 'a', served: null, bytes: 0 }],
    budgetBytes: 0,
    capacity,
    log: () => undefined,
    open: (id, onIdle) => {
      const host = new ScriptedHost(id, onIdle);
      host.loading.reject(new Error('no /a.gguf'));
      return host;
    },
  });
  await expect(pool.start()).rejects.toThrow('no /a.gguf');
  expect(() => pool.models).toThrow('has not been loaded');
});

/** Model checks that report the models of a set as damaged. */
function findsDamaged(ids: ReadonlySet<string>): ModelCheck {
  const refuseDamaged = (id: string) => {
    if (ids.has(id)) throw new BackendFailure('engine.model_damaged', `\`${id}\` is damaged`, 'model');
  };
  return { refuseDamaged, check: async (id) => refuseDamaged(id) };
}

test('a model with a damaged file is refused with its reason, and the others are served', async () => {
  const damaged = new Set(['first']);
  const pool = await poolOf({ first: 1, second: 1 }, { budget: 10, files: findsDamaged(damaged) });
  const refused = { code: 'engine.model_damaged', message: '`first` is damaged' };
  await expect(ask(pool, 'first')).rejects.toMatchObject(refused);
  await expect(pool.of('first').detokenize([1], { signal: NEVER })).rejects.toMatchObject(refused);
  expect(await ask(pool, 'second')).toBe('second');
  expect(await pool.problem()).toBe('first: `first` is damaged');
  // A model in memory is refused from then on, and served again once its file is repaired.
  damaged.add('second');
  await expect(ask(pool, 'second')).rejects.toMatchObject({ code: 'engine.model_damaged' });
  damaged.clear();
  expect([await ask(pool, 'first'), await ask(pool, 'second'), await pool.problem()]).toEqual([
    'first',
    'second',
    null,
  ]);
});

test('a service with one model and a damaged file does not start', async () => {
  const files = findsDamaged(new Set(['only']));
  const pool = new InferencePool({
    models: [{ id: 'only', served: null, bytes: 0 }],
    budgetBytes: 1,
    capacity,
    log: () => {},
    files,
    open: () => {
      throw new Error('a damaged file is not opened');
    },
  });
  await expect(pool.start()).rejects.toMatchObject({ code: 'server.model_damaged', message: '`only` is damaged' });
});
