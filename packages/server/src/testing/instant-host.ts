/**
 * A text host with bytes as tokens, over a back end that answers at once: only the cost outside sampling
 * remains.
 */
import type { SampleOutput, SampleParams, SampleTotals } from '@trainyard/backend';
import { ScriptedTokenBackend } from '@trainyard/backend/testing';
import { openScriptedText } from '@trainyard/generation/testing';

import { hostOptions } from '../hosts/process/host-main.ts';
import { openGuest, type TextHostOptions } from '../hosts/inference/open-guest.ts';
import { serveText } from '../hosts/inference/serve-text.ts';

/** `word word …`, one token per byte. */
const REPLY = Buffer.from('word ');

class InstantBackend extends ScriptedTokenBackend {
  override readonly models = [{ id: 'instant', contextLength: 8192, vocabSize: 261 }];

  constructor() {
    super(() => {});
  }

  override async *sample(
    ids: readonly number[],
    { maxTokens }: SampleParams,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined> {
    const completionTokens = maxTokens ?? 1;
    yield { kind: 'started', cachedTokens: 0 };
    for (let at = 0; at < completionTokens; at++) {
      const finish = at + 1 < completionTokens ? null : ({ reason: 'length', stopReason: null } as const);
      yield { kind: 'tokens', index: 0, tokenIds: [REPLY[at % REPLY.length]!], logprobs: null, finish };
    }
    return { promptTokens: ids.length, completionTokens, cachedTokens: 0 };
  }
}

await serveText((turns) =>
  openGuest(
    hostOptions<TextHostOptions>(),
    { instant: async () => new InstantBackend() },
    { turns, log: () => {} },
    async () => ({
      text: await openScriptedText({ contextLength: 8192, runsRequestTemplates: false }),
      architecture: 'instant',
    }),
  ),
);
