import { EngineError } from '@trainyard/backend';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Publications } from './publications.ts';

const A = { digest: 'a', path: '/adapters/a/adapter.gguf' };
const B = { digest: 'b', path: '/adapters/b/adapter.gguf' };

/** Records its calls and completes each on command. */
function slowBackend() {
  const calls: string[] = [];
  const waiting: PromiseWithResolvers<void>[] = [];
  const record = (call: string): Promise<void> => {
    calls.push(call);
    const done = Promise.withResolvers<void>();
    waiting.push(done);
    return done.promise;
  };
  return {
    calls,
    publish: ({ digest, directory }: { digest: string; directory: string }) =>
      record(`publish ${digest} ${directory}`).then(() => null),
    retire: (digest: string) => record(`retire ${digest}`),
    /** Completes or fails the oldest call. */
    async settle(error?: Error): Promise<void> {
      await nextTurn();
      const done = waiting.shift()!;
      if (error === undefined) done.resolve();
      else done.reject(error);
      await nextTurn();
    },
  };
}

test('first requests wait for one publishing, later ones for none', async () => {
  const backend = slowBackend();
  const publications = new Publications(backend);
  const held = [publications.hold(A), publications.hold(A), publications.hold(B)];
  await backend.settle();
  await backend.settle();
  await Promise.all(held.map(({ ready }) => ready));
  await publications.hold(A).ready;
  expect(backend.calls).toEqual(['publish a /adapters/a', 'publish b /adapters/b']);
});

test('a failed publication fails its waiters, and is tried again for the next', async () => {
  const backend = slowBackend();
  const publications = new Publications(backend);
  const held = [publications.hold(A), publications.hold(A)];
  const settled = Promise.allSettled(held.map(({ ready }) => ready));
  await backend.settle(new Error('the disk is gone'));
  const unreadable = expect.objectContaining({
    code: 'engine.adapter_unreadable',
    message: 'adapter a cannot be loaded: the disk is gone',
  });
  const rejected = { status: 'rejected', reason: unreadable };
  expect(await settled).toEqual([rejected, rejected]);
  for (const one of held) one.release();
  const again = publications.hold(A);
  await backend.settle();
  await again.ready;
  expect(backend.calls).toHaveLength(2);
});

test('one in another folder is published again, also after the older folder failed', async () => {
  const backend = slowBackend();
  const publications = new Publications(backend);
  const moved = { digest: 'a', path: '/adapters/newer/adapter.gguf' };
  const [first, second] = [publications.hold(A), publications.hold(moved)];
  const settled = Promise.allSettled([first.ready, second.ready]);
  await backend.settle(new Error('the folder is gone'));
  await backend.settle();
  expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  await publications.hold(moved).ready;
  expect(backend.calls).toEqual(['publish a /adapters/a', 'publish a /adapters/newer']);
  const third = publications.hold(A);
  const [again] = await Promise.all([Promise.allSettled([third.ready]), backend.settle(new Error('still gone'))]);
  expect(again[0].status).toBe('rejected');
  const fourth = publications.hold(moved);
  await backend.settle();
  await fourth.ready;
  expect(backend.calls.slice(2)).toEqual(['publish a /adapters/a', 'publish a /adapters/newer']);
});

test('an error of the back end is passed on unchanged', async () => {
  const backend = slowBackend();
  const lost = new EngineError('engine.host_lost', 'no server answers at the address');
  const { ready } = new Publications(backend).hold(A);
  await Promise.all([expect(ready).rejects.toBe(lost), backend.settle(lost)]);
});

test('a retired version goes with the last request that uses it', async () => {
  const backend = slowBackend();
  const publications = new Publications(backend);
  const [first, second] = [publications.hold(A), publications.hold(A)];
  await backend.settle();
  publications.retire(A.digest);
  first.release();
  expect(backend.calls).toHaveLength(1);
  second.release();
  await backend.settle();
  expect(backend.calls).toEqual(['publish a /adapters/a', 'retire a']);
});

test('a version named again during its use stays; one named again during its retirement is published after it', async () => {
  const backend = slowBackend();
  const publications = new Publications(backend);
  const first = publications.hold(A);
  await backend.settle();
  publications.retire(A.digest);
  const second = publications.hold(A);
  first.release();
  second.release();
  expect(backend.calls).toHaveLength(1);
  publications.retire(A.digest);
  await nextTurn();
  const third = publications.hold(A);
  await nextTurn();
  expect(backend.calls).toEqual(['publish a /adapters/a', 'retire a']);
  await backend.settle(new Error('it cannot be given back'));
  expect(backend.calls.at(-1)).toBe('publish a /adapters/a');
  await backend.settle();
  await third.ready;
});

test('one that is not published is retired all the same: an earlier life of this process may have left it there', async () => {
  const backend = slowBackend();
  const publications = new Publications(backend);
  publications.retire(A.digest);
  const held = publications.hold(A);
  await backend.settle();
  await backend.settle();
  await held.ready;
  expect(backend.calls).toEqual(['retire a', 'publish a /adapters/a']);
});
