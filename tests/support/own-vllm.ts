import { tmpdir } from 'node:os';

import { openTokenEngine, ServedModel } from '@trainyard/engine';
import { EmbeddedTokenBackend } from '@trainyard/engine/testing';
import { openTextOfFile } from '@trainyard/generation';
import { asGuest } from '@trainyard/generation/testing';
import { FakeVllm, type FakeVllmOptions } from '@trainyard/vllm/testing';

/**
 * A server with vLLM's API that samples with this repository's engine: every difference is caused by the
 * driver.
 */
export interface OwnVllm extends AsyncDisposable {
  readonly url: string;
}

/** @param modelPath the service's model, too */
export async function openOwnVllm(modelPath: string, fake: Partial<FakeVllmOptions>): Promise<OwnVllm> {
  const { text } = await openTextOfFile(modelPath);
  const { tokenizer } = text.prompt;
  const model = ServedModel.load({
    modelPath,
    precision: 'strict',
    oneDnnPath: '',
    cacheDirectory: tmpdir(),
    numThreads: 1,
  });
  const sizes = { numThreads: 1, capacityTokens: 4096, maxSequences: 16 };
  const engine = openTokenEngine(model, { ...sizes, ends: tokenizer });
  const backend = new EmbeddedTokenBackend({ modelId: 'base', engine, onClosed: () => model.close() });
  const server = await FakeVllm.open({ brain: await asGuest('specs', backend, text), policy: 'fcfs', ...fake });
  return {
    url: server.url,
    async [Symbol.asyncDispose]() {
      await server.close();
      await backend.close();
      text.close();
    },
  };
}
