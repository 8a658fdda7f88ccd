/** For tests: an engine over a scripted model with one token a byte, and what each request was told. */
import { Tokenizer } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import { Engine } from '../engine.ts';
import type { EngineParts } from '../engine.ts';
import type {
  EngineEvent,
  GenerateRequest,
  Prompt,
  SamplingParams,
  TokenLogprob,
} from '../contract/generate-request.ts';
import { ScriptedRunner } from './scripted-runner.ts';
import type { LogitsScript, ScriptedRunnerOptions } from './scripted-runner.ts';

const vocabulary = new ByteVocabulary();
export const byteTokenizer = new Tokenizer(vocabulary);
export const EOS = vocabulary.eosTokenId;
export const SECOND_END = vocabulary.idOf('<|endoftext|>');
export const VOCAB_SIZE = vocabulary.vocabSize;

export type RequestOptions = Omit<Partial<GenerateRequest>, 'sampling' | 'prompt'> & {
  prompt?: string | readonly number[] | Prompt;
  sampling?: Partial<SamplingParams>;
};

let numRequests = 0;

/** Greedy, one choice, 8 tokens; override what matters to the test. */
export function request(options: RequestOptions = {}): GenerateRequest {
  const { prompt = 'hello', sampling = {}, ...rest } = options;
  return {
    requestId: `request-${numRequests++}`,
    tenant: 'tenant',
    cacheSalt: null,
    adapter: null,
    prompt: promptOf(prompt),
    n: 1,
    sampling: {
      temperature: 0,
      topP: 1,
      topK: 0,
      minP: 0,
      presencePenalty: 0,
      frequencyPenalty: 0,
      repetitionPenalty: 1,
      logitBias: [],
      seed: 1n,
      ...sampling,
    },
    maxTokens: 8,
    stop: [],
    stopTokenIds: [],
    ignoreEos: false,
    includeStopString: false,
    minTokens: 0,
    logprobs: null,
    priority: 0,
    ...rest,
  };
}

function promptOf(prompt: string | readonly number[] | Prompt): Prompt {
  if (typeof prompt === 'string') return { kind: 'tokens', tokenIds: [...Buffer.from(prompt)] };
  return 'kind' in prompt ? prompt : { kind: 'tokens', tokenIds: prompt };
}

/** What one request was told, put together. */
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

export class Harness {
  readonly runner: ScriptedRunner;
  readonly engine: Engine;

  constructor(options: Partial<ScriptedRunnerOptions> & Partial<Omit<EngineParts, 'runner'>> = {}) {
    this.runner = new ScriptedRunner({ vocabSize: VOCAB_SIZE, logits: mixedLogits, ...options });
    this.engine = new Engine({ tokenizer: byteTokenizer, template: null, ...options, runner: this.runner });
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

/** Logits that depend on every token held, its position and the adapter: wrong cells show in the reply. End tokens are rare. */
export const mixedLogits: LogitsScript = (tokens, adapterPath, row) => {
  let hash = 2166136261;
  for (const char of adapterPath ?? '') hash = Math.imul(hash ^ char.charCodeAt(0), 16777619);
  for (const token of tokens) hash = Math.imul(hash ^ (token + 1), 16777619);
  for (let id = 0; id < row.length; id++) {
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    row[id] = ((hash >>> 8) / 2 ** 24) * 6;
  }
  row[EOS] = row[EOS]! - 0.5;
};

/** Says `reply` after a prompt of `promptLength` tokens, then the end token, with certainty. */
export function replying(reply: string | readonly number[], promptLength: number): LogitsScript {
  const ids = typeof reply === 'string' ? [...Buffer.from(reply)] : reply;
  return (tokens, _adapterPath, row) => {
    row.fill(0);
    row[ids[tokens.length - promptLength] ?? EOS] = 50;
  };
}
