/** For tests: an engine of tokens over a scripted model with one token a byte, and what each request was told. */
import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import {
  DEFAULT_SAMPLE,
  type SampleEvent,
  type SampleRequest,
  type SamplingParams,
  type SchedulingPolicy,
  toFailure,
  type TokenLogprob,
} from '@trainyard/backend';
import type { EngineLimits } from '../batching/engine-limits.ts';
import { checkSampleRequest } from '../tokens/check-sample-request.ts';
import { TokenEngine } from '../tokens/token-engine.ts';
import { ByteText, type DigitSpec } from './byte-text.ts';
import { byteTokenizer, mixedLogits, VOCAB_SIZE } from './scripted-logits.ts';
import { ScriptedRunner, type ScriptedRunnerOptions } from './scripted-runner.ts';

export type RequestOptions = Omit<Partial<SampleRequest>, 'sampling'> & {
  prompt?: string | readonly number[];
  sampling?: Partial<SamplingParams>;
  /** Its replies are numbers. Default: any text. */
  digits?: DigitSpec | null;
  /** Default true: control tokens give no text. */
  skipSpecialTokens?: boolean;
};

/** A request and what comes with it. */
export interface HarnessRequest extends SampleRequest {
  readonly promptIds: readonly number[];
  readonly text: ByteText;
}

let numRequests = 0;

/** Greedy, one choice, 8 tokens; override what matters to the test. */
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

/** The events of one request, put together. */
export class Transcript {
  readonly events: SampleEvent[] = [];

  readonly receive = (event: SampleEvent): void => {
    this.events.push(event);
  };
  text(index = 0): string {
    return this.#choice(index).reduce((text, event) => text + event.text, '');
  }
  tokenIds(index = 0): number[] {
    return this.#choice(index).flatMap((event) => event.tokenIds);
  }
  logprobs(index = 0): TokenLogprob[] {
    return this.#choice(index).flatMap((event) => event.logprobs ?? []);
  }
  get started(): Extract<SampleEvent, { kind: 'started' }> | undefined {
    return this.events.find((event) => event.kind === 'started');
  }
  get completed(): Extract<SampleEvent, { kind: 'completed' }> | undefined {
    return this.events.find((event) => event.kind === 'completed');
  }
  get failed(): Extract<SampleEvent, { kind: 'failed' }> | undefined {
    return this.events.find((event) => event.kind === 'failed');
  }
  finished(index = 0): Extract<SampleEvent, { kind: 'finished' }> | undefined {
    return this.events.find((event) => event.kind === 'finished' && event.index === index) as never;
  }
  /** `completed` and `failed` events: must be 1 in the end. */
  get numEnds(): number {
    return this.events.filter(({ kind }) => kind === 'completed' || kind === 'failed').length;
  }
  #choice(index: number): Extract<SampleEvent, { kind: 'delta' | 'finished' }>[] {
    return this.events
      .filter((event) => event.kind === 'delta' || event.kind === 'finished')
      .filter((event) => event.index === index);
  }
}

export type HarnessOptions = Partial<ScriptedRunnerOptions> & {
  limits?: Partial<EngineLimits>;
  policy?: SchedulingPolicy;
};

export class Harness {
  readonly runner: ScriptedRunner;
  readonly engine: TokenEngine;
  readonly #policy: SchedulingPolicy | undefined;
  #numArrivals = 0;

  constructor(options: HarnessOptions = {}) {
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

  /** Refuses as those do who stand above the engine. */
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
        tellsDraws: false,
        emit,
      });
    } catch (error) {
      emit({ kind: 'failed', ...toFailure(error) });
    }
  }

  /** Steps until nothing is left to do, checking the books after each step. */
  run(maxSteps = 10_000): void {
    for (let i = 0; this.engine.hasWork; i++) {
      if (i === maxSteps) throw new Error(`not done after ${maxSteps} steps: ${JSON.stringify(this.engine.stats())}`);
      this.step();
    }
  }

  step(): void {
    if (this.engine.step() instanceof Promise) throw new Error('the runner answers later: use stepLater()');
    this.check();
  }

  /** {@link run} over a runner that answers later. */
  async runLater(maxSteps = 10_000): Promise<void> {
    for (let i = 0; this.engine.hasWork; i++) {
      if (i === maxSteps) throw new Error(`not done after ${maxSteps} steps: ${JSON.stringify(this.engine.stats())}`);
      await this.stepLater();
    }
  }

  /** @param meanwhile is called while the step goes on */
  async stepLater(meanwhile: () => void = () => {}): Promise<void> {
    const report = this.engine.step();
    meanwhile();
    await report;
    this.check();
  }

  check(): void {
    this.engine.checkIntegrity();
    const { usedTokens } = this.engine.stats();
    if (usedTokens !== this.runner.numUsedCells)
      throw new Error(`ledger ${usedTokens}, runner ${this.runner.numUsedCells} cells`);
  }
}

function isBuilt(options: RequestOptions | HarnessRequest): options is HarnessRequest {
  return 'promptIds' in options;
}
