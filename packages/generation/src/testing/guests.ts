/** The engine as other back ends, for tests of the text half. */
import {
  checkFeatures,
  type SampleFeature,
  type SampleOutput,
  type SampleParams,
  type SampleTotals,
  type TokenBackend,
  type TokenBackendCapabilities,
} from '@trainyard/backend';
import { VllmBackend } from '@trainyard/vllm';
import { FakeVllm } from '@trainyard/vllm/testing';
import type { TextHalf } from '../open-text-half.ts';
import { ReplyText } from '../reply/reply-text.ts';
import { StopStrings } from '../reply/stop-strings.ts';

/**
 * `along`: supports all fields but those of text, which is read here. `specs`: also enforces constraints by
 * their specs. `little`: samples, stops at tokens, gives log-probabilities, and refuses all else. `vllm`:
 * through vLLM's HTTP and its driver.
 */
export type Guest = 'along' | 'specs' | 'little' | 'vllm';

export const GUESTS: readonly Guest[] = ['along', 'specs', 'little', 'vllm'];

const KINDS = ['json_schema', 'json_object', 'regex', 'choice', 'grammar', 'structural_tag', 'either'];
const FEW: readonly SampleFeature[] = ['adapters', 'seeds'];

/** Starts a guest. @param engine asks for text, which it does not get here */
export async function asGuest(guest: Guest, engine: TokenBackend, text: TextHalf): Promise<TokenBackend> {
  return guest === 'vllm' ? behindVllm(held('specs', engine, text), text) : held(guest, engine, text);
}

async function behindVllm(brain: TokenBackend, text: TextHalf): Promise<TokenBackend> {
  const fake = await FakeVllm.open({ brain, maxLogprobs: brain.models[0]!.vocabSize });
  const backend = new VllmBackend({
    urls: [fake.url],
    modelId: 'scripted',
    ends: text.prompt.tokenizer,
    maxRequests: brain.capabilities.maxRequests,
    maxChoices: brain.capabilities.maxChoices,
    schedulingPolicy: 'priority',
    log: () => {},
  });
  await backend.start();
  const close = backend.close.bind(backend);
  return Object.assign(backend, {
    close: async () => {
      await close();
      await fake.close();
    },
  });
}

function held(guest: Exclude<Guest, 'vllm'>, engine: TokenBackend, text: TextHalf): TokenBackend {
  const capabilities: TokenBackendCapabilities = {
    ...engine.capabilities,
    asksText: false,
    ...(guest === 'specs' ? { constraints: new Set(KINDS) } : {}),
    ...(guest === 'little' ? { features: new Set(FEW) } : {}),
  };
  return {
    specVersion: 1,
    capabilities,
    models: engine.models,
    start: () => engine.start(),
    close: () => engine.close(),
    publish: (adapter) => engine.publish(adapter),
    retire: (digest) => engine.retire(digest),
    sample: (ids, params, signal) => {
      checkFeatures(params, capabilities);
      return sampleHeld(engine, text, { ids, params, signal });
    },
    score: (ids, params, signal) => engine.score(ids, params, signal),
    health: () => engine.health(),
  };
}

/** Converts a constraint to the masks that the engine asks for, without the text that comes with them. */
async function* sampleHeld(
  engine: TokenBackend,
  { constraints, prompt: { tokenizer } }: TextHalf,
  { ids, params, signal }: { ids: readonly number[]; params: SampleParams; signal: AbortSignal },
): AsyncGenerator<SampleOutput, SampleTotals, undefined> {
  const { constraint: spec } = params;
  if (spec === null) return yield* engine.sample(ids, params, signal);
  const held = new ReplyText({
    tokenizer,
    stops: { stop: new StopStrings([]), includeStopString: false, minTokens: 0, reasoning: null },
    constraint: { spec, matcher: constraints.compile(spec), hasBegun: false, start: { kind: 'at_once' } },
    thinkingLimit: null,
    skipsSpecialTokens: false,
  });
  const sampled = engine.sample(ids, { ...params, constraint: null, text: held }, signal);
  try {
    for (;;) {
      const { done, value } = await sampled.next();
      if (done) return value;
      if (value.kind !== 'tokens') yield value;
      else {
        const { text: _text, ...tokens } = value;
        yield tokens;
      }
    }
  } finally {
    await sampled.return({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 }).catch(() => undefined);
    held.close();
  }
}
