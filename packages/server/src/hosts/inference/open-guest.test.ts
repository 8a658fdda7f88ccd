import { ScriptedTokenBackend } from '@trainyard/backend/testing';
import { openScriptedText } from '@trainyard/generation/testing';
import { expect, test } from 'vitest';

import { openGuest } from './open-guest.ts';

class Sampler extends ScriptedTokenBackend {
  override readonly models = [{ id: 'guest', contextLength: 512, vocabSize: 261 }];
  isClosed = false;

  override async close(): Promise<void> {
    this.isClosed = true;
    await super.close();
  }
}

/** Opens a sampler with a context of 512 tokens, for a model file whose rope factors for short contexts allow some. */
async function opened(shortContext: number | null) {
  const sampler = new Sampler(() => {});
  const options = { modelId: 'guest', modelPath: '', maxRequests: 8, driver: { name: 'sampler', settings: null } };
  const parts = { turns: null as never, log: () => {} };
  const text = openGuest(options, { sampler: async () => sampler }, parts, async () => ({
    text: await openScriptedText({ runsRequestTemplates: false }),
    architecture: 'scripted',
    shortContext,
  }));
  return { sampler, text };
}

test('a sampling server that uses rope factors for long contexts is refused, and closed', async () => {
  const { sampler, text } = await opened(256);
  await expect(text).rejects.toThrow(
    "The sampling server has a context of 512 tokens, so it uses this model's rope factors for long contexts; " +
      'training uses those for up to 256. Start vLLM with --max-model-len 256',
  );
  expect(sampler.isClosed).toBe(true);
});

test.each([512, null])('one within the context of %s tokens is used', async (shortContext) => {
  const { text } = await opened(shortContext);
  const guest = await text;
  expect(guest.model.contextLength).toBe(512);
  await guest.close();
});
