/** Test harness: an engine over a scripted model with one token per byte, and the events of each request. */
import type { SchedulingPolicy } from '@trainyard/backend';
import { type EngineLimits, TokenEngine } from '@trainyard/engine';
import {
  byteTokenizer,
  mixedLogits,
  ScriptedRunner,
  type ScriptedRunnerOptions,
  SteppedHarness,
  Transcript as SampledTranscript,
  VOCAB_SIZE,
} from '@trainyard/engine/testing';
import { DEFAULT_SAMPLING, type SamplingParams } from '@trainyard/protocol/fields';
import { DEFAULT_GENERATE, type EngineEvent, type GenerateRequest, type Prompt } from '../contract/generate-request.ts';
import { TextEngine, type TextEngineParts } from '../text-engine.ts';

export type RequestOptions = Omit<Partial<GenerateRequest>, 'sampling' | 'prompt'> & {
  prompt?: string | readonly number[] | Prompt;
  sampling?: Partial<SamplingParams>;
};

let numRequests = 0;

/** Greedy request with one choice of 8 tokens; override as needed. */
export function request(options: RequestOptions = {}): GenerateRequest {
  const { prompt = 'hello', sampling = {}, ...rest } = options;
  return {
    ...DEFAULT_GENERATE,
    requestId: `request-${numRequests++}`,
    tenant: 'tenant',
    prompt: promptOf(prompt),
    maxTokens: 8,
    ...rest,
    sampling: { ...DEFAULT_SAMPLING, temperature: 0, seed: 1n, ...sampling },
  };
}

function promptOf(prompt: string | readonly number[] | Prompt): Prompt {
  if (typeof prompt === 'string') return { kind: 'tokens', tokenIds: [...Buffer.from(prompt)] };
  return 'kind' in prompt ? prompt : { kind: 'tokens', tokenIds: prompt };
}

export class Transcript extends SampledTranscript<EngineEvent> {}

export type HarnessOptions = Partial<ScriptedRunnerOptions> &
  Partial<Omit<TextEngineParts, 'tokens'>> & { limits?: Partial<EngineLimits>; policy?: SchedulingPolicy };

export class Harness extends SteppedHarness {
  readonly runner: ScriptedRunner;
  readonly engine: TextEngine;

  constructor(options: HarnessOptions = {}) {
    super();
    const { limits = {}, tokenizer = byteTokenizer, constraints } = options;
    this.runner = new ScriptedRunner({ vocabSize: VOCAB_SIZE, logits: mixedLogits, ...options });
    const tokens = new TokenEngine({
      runner: this.runner,
      ends: tokenizer,
      texts: tokenizer,
      limits,
      leavesCore: () => constraints?.isCompiling ?? false,
    });
    this.engine = new TextEngine({ template: null, ...options, tokenizer, tokens });
  }

  submit(options: RequestOptions | GenerateRequest = {}): Transcript & { id: string } {
    const transcript = new Transcript();
    const built = isBuilt(options) ? options : request(options);
    this.engine.submit(built, transcript.receive);
    return Object.assign(transcript, { id: built.requestId });
  }
}

function isBuilt(options: RequestOptions | GenerateRequest): options is GenerateRequest {
  return (
    typeof options.requestId === 'string' &&
    options.sampling !== undefined &&
    'seed' in options.sampling &&
    'tenant' in options
  );
}
