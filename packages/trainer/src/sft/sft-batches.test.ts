import { expect, it } from 'vitest';

import { byteTemplate } from '../testing/chat-groups.ts';
import { sftBatches } from './sft-batches.ts';
import { resolveSftConfig } from './sft-config.ts';

it('hears of a cancellation between two turns of one conversation', async () => {
  const messages = Array.from({ length: 20 }, (_, turn) => [
    { role: 'user', content: `${turn}?` },
    { role: 'assistant', content: 'yes' },
  ]).flat();
  const controller = new AbortController();
  // It waits once before the first conversation.
  setImmediate(() => setImmediate(() => controller.abort(new Error('cancelled'))));
  const parts = {
    template: byteTemplate,
    config: resolveSftConfig({}, { maxSequenceLength: 2048 }),
    signal: controller.signal,
  };
  await expect(sftBatches([{ messages, tools: null }], parts)).rejects.toThrow('cancelled');
});
