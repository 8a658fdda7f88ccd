/**
 * A text host with bytes as tokens, over a test driver. The last message decides the reply: `told` lists the
 * adapters that the driver received, `pid` is the process, `fail` breaks after four tokens, `wait` stops
 * producing; any other gives a greeting, with the adapter's digest if there is one.
 */
import { EngineError, type SampleOutput, type SampleParams, type SampleTotals } from '@trainyard/backend';
import { ScriptedTokenBackend } from '@trainyard/backend/testing';
import { openScriptedText } from '@trainyard/generation/testing';

import { hostOptions } from '../process/host-main.ts';
import { openGuest, type TextHostOptions } from './open-guest.ts';
import { serveText } from './serve-text.ts';
import { openVllmDriver } from './vllm-driver.ts';

const IM_START = 257;
const IM_END = 258;
const TOKENS_BEFORE_TROUBLE = 4;

class FixtureDriver extends ScriptedTokenBackend {
  readonly #told: string[] = [];

  constructor() {
    super((tokens, adapter, row) => {
      const start = tokens.lastIndexOf(IM_START) + 1 + 'assistant\n'.length;
      const reply = Buffer.from(this.#replyTo(textOf(tokens.slice(0, start)), adapter));
      row[reply[tokens.length - start] ?? IM_END] = 50;
    });
  }

  #replyTo(prompt: string, adapter: string | null): string {
    if (prompt.includes('told')) return this.#told.join(', ');
    if (prompt.includes('pid')) return String(process.pid);
    return adapter === null ? 'Hello to you.' : `Hello from ${adapter.slice(0, 4)}.`;
  }

  override async *sample(
    ids: readonly number[],
    params: SampleParams,
    signal: AbortSignal,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined> {
    const prompt = textOf(ids);
    const sampled = super.sample(ids, params, signal);
    for (let numTokens = 0; ; numTokens++) {
      const { done, value } = await sampled.next();
      if (done) return value;
      yield value;
      if (numTokens < TOKENS_BEFORE_TROUBLE) continue;
      if (prompt.includes('fail')) throw new EngineError('engine.internal', 'the far side broke');
      if (prompt.includes('wait')) await this.#untilGivenUp(signal);
    }
  }

  async #untilGivenUp(signal: AbortSignal): Promise<never> {
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    this.#told.push('given up');
    throw new EngineError('engine.aborted', 'the request was aborted');
  }

  override async publish(adapter: { digest: string; directory: string }): Promise<string | null> {
    this.#told.push(`publish ${adapter.digest.slice(0, 4)}`);
    return await super.publish(adapter);
  }

  override async retire(digest: string): Promise<void> {
    this.#told.push(`retire ${digest.slice(0, 4)}`);
    await super.retire(digest);
  }
}

function textOf(ids: readonly number[]): string {
  return Buffer.from(ids.filter((id) => id < 256)).toString();
}

class OtherVocabulary extends FixtureDriver {
  override readonly models = [{ id: 'other', contextLength: 512, vocabSize: 1000 }];
}

const DRIVERS = {
  fixture: async () => new FixtureDriver(),
  other: async () => new OtherVocabulary(),
  vllm: openVllmDriver,
};

const log = (line: string): void => void process.send?.({ kind: 'log', line });

await serveText((turns) =>
  openGuest(hostOptions<TextHostOptions>(), DRIVERS, { turns, log }, async () => ({
    text: await openScriptedText({ runsRequestTemplates: false }),
    architecture: 'scripted',
  })),
);
