/** For tests: an engine over a scripted model with one token a byte, and what each request was told. */
import type { SchedulingPolicy, TokenLogprob } from '@trainyard/backend';
import { type EngineLimits, TokenEngine } from '@trainyard/engine';
import {
  byteTokenizer,
  mixedLogits,
  ScriptedRunner,
  type ScriptedRunnerOptions,
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

/** Greedy, one choice, 8 tokens; override what matters to the test. */
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

/** The events of one request, put together. */
export class Transcript {
  readonly events: EngineEvent[] = [];

  readonly receive = (event: EngineEvent): void => {
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
  get started(): Extract<EngineEvent, { kind: 'started' }> | undefined {
    return this.events.find((event) => event.kind === 'started');
  }
  get completed(): Extract<EngineEvent, { kind: 'completed' }> | undefined {
    return this.events.find((event) => event.kind === 'completed');
  }
  get failed(): Extract<EngineEvent, { kind: 'failed' }> | undefined {
    return this.events.find((event) => event.kind === 'failed');
  }
  finished(index = 0): Extract<EngineEvent, { kind: 'finished' }> | undefined {
    return this.events.find((event) => event.kind === 'finished' && event.index === index) as never;
  }
  /** `completed` and `failed` events: must be 1 in the end. */
  get numEnds(): number {
    return this.events.filter(({ kind }) => kind === 'completed' || kind === 'failed').length;
  }
  #choice(index: number): Extract<EngineEvent, { kind: 'delta' | 'finished' }>[] {
    return this.events
      .filter((event) => event.kind === 'delta' || event.kind === 'finished')
      .filter((event) => event.index === index);
  }
}

export type HarnessOptions = Partial<ScriptedRunnerOptions> &
  Partial<Omit<TextEngineParts, 'tokens'>> & { limits?: Partial<EngineLimits>; policy?: SchedulingPolicy };

export class Harness {
  readonly runner: ScriptedRunner;
  readonly engine: TextEngine;

  constructor(options: HarnessOptions = {}) {
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

function isBuilt(options: RequestOptions | GenerateRequest): options is GenerateRequest {
  return (
    typeof options.requestId === 'string' &&
    options.sampling !== undefined &&
    'seed' in options.sampling &&
    'tenant' in options
  );
}
