/** Test harness: a token engine over a scripted model with one token per byte, and the events of each request. */
import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import {
  DEFAULT_SAMPLE,
  type SampleEvent,
  type SampleRequest,
  type SamplingParams,
  type SchedulingPolicy,
  toFailure,
} from '@trainyard/backend';
import type { EngineLimits } from '../batching/engine-limits.ts';
import { checkSampleRequest } from './check-sample-request.ts';
import { TokenEngine } from '../tokens/token-engine.ts';
import { ByteText, type DigitSpec } from './byte-text.ts';
import { byteTokenizer, mixedLogits, VOCAB_SIZE } from './scripted-logits.ts';
import { ScriptedRunner, type ScriptedRunnerOptions } from './scripted-runner.ts';
import { SteppedHarness } from './stepped-harness.ts';
import { Transcript } from './transcript.ts';

export type RequestOptions = Omit<Partial<SampleRequest>, 'sampling'> & {
  prompt?: string | readonly number[];
  sampling?: Partial<SamplingParams>;
  /** Constrains replies to numbers. Default: any text. */
  digits?: DigitSpec | null;
  /** Default true: control tokens give no text. */
  skipSpecialTokens?: boolean;
};

export interface HarnessRequest extends SampleRequest {
  readonly promptIds: readonly number[];
  readonly text: ByteText;
}

let numRequests = 0;

/** Request defaults: greedy, one choice, 8 tokens. */
export function request(options: RequestOptions = {}): HarnessRequest {
  const { prompt = 'hello', sampling = {}, digits = null, skipSpecialTokens = true, ...rest } = options;
  return {
    ...DEFAULT_SAMPLE,
    requestId: `request-${numRequests++}`,
    tenant: 'tenant',
    promptIds: typeof prompt === 'string' ? [...Buffer.from(prompt)] : prompt,
    text: new ByteText({ digits, skipSpecialTokens, includesEnd: rest.includeStopString === true }),
    maxTokens: 8,
    ...rest,
    sampling: { ...DEFAULT_SAMPLING, temperature: 0, seed: 1n, ...sampling },
  };
}

export { Transcript };

export type HarnessOptions = Partial<ScriptedRunnerOptions> & {
  limits?: Partial<EngineLimits>;
  policy?: SchedulingPolicy;
};

export class Harness extends SteppedHarness {
  readonly runner: ScriptedRunner;
  readonly engine: TokenEngine;
  readonly #policy: SchedulingPolicy | undefined;
  #numArrivals = 0;

  constructor(options: HarnessOptions = {}) {
    super();
    const { limits = {}, policy } = options;
    this.runner = new ScriptedRunner({ vocabSize: VOCAB_SIZE, logits: mixedLogits, ...options });
    this.engine = new TokenEngine({ runner: this.runner, ends: byteTokenizer, texts: byteTokenizer, limits });
    this.#policy = policy;
  }

  submit(options: RequestOptions | HarnessRequest = {}): Transcript & { id: string } {
    const transcript = new Transcript();
    const built = isBuilt(options) ? options : request(options);
    this.submitTo(built, transcript.receive);
    return Object.assign(transcript, { id: built.requestId });
  }

  /** Checks requests like the layers above the engine. */
  submitTo({ promptIds, text, ...asked }: HarnessRequest, emit: (event: SampleEvent) => void): void {
    try {
      checkSampleRequest(asked, promptIds, this.engine, this.#policy);
      this.engine.submit({
        request: asked,
        promptIds,
        text,
        arrival: this.#numArrivals++,
        isPaused: false,
        banned: [],
        reportsDraws: false,
        emit,
      });
    } catch (error) {
      emit({ kind: 'failed', ...toFailure(error) });
    }
  }
}

function isBuilt(options: RequestOptions | HarnessRequest): options is HarnessRequest {
  return 'promptIds' in options;
}
