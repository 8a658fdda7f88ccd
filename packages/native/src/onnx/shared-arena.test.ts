import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, test, vi } from 'vitest';
import { additionModel } from '../testing/addition-model.ts';
import { onnxLibrary } from './onnx-library.ts';
import { OnnxSession } from './onnx-session.ts';

const MODULE = new URL('./shared-arena.fixture.ts', import.meta.url);
const startThread = () => new Worker(MODULE, { execArgv: ['--conditions=@trainyard/source'] });

async function askForSession(thread: Worker): Promise<unknown> {
  thread.postMessage(null);
  const [hadArena] = (await once(thread, 'message')) as [unknown];
  await thread.terminate();
  return hadArena;
}

/** ONNX Runtime replaces an arena without a lock; a session opened at that moment crashes the process. */
test('the arena is made by the main thread, once, and threads that were there before it do without', async () => {
  const before = startThread();
  await once(before, 'online');
  const library = onnxLibrary();
  const made = vi.spyOn(library, 'createAndRegisterAllocator');
  const open = () =>
    new OnnxSession(additionModel(), {
      numThreads: 1,
      inputNames: ['a', 'b'],
      outputNames: ['sum'],
      sharesArena: true,
    });
  for (const session of [open(), open()]) session.close();
  expect(made).toHaveBeenCalledTimes(1);
  expect(await askForSession(before)).toBe(false);
  expect(await askForSession(startThread())).toBe(true);
});
