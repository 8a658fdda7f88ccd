import { isDeepStrictEqual } from 'node:util';

import { type BackendMember, deadlineAfter, type RingMember } from '@trainyard/backend';
import type { EngineEvent } from '@trainyard/generation';
import type { Member } from '@trainyard/store';

import type { EngineSecret } from '../wire/engine-secret.ts';
import { ENGINE_PATHS, type EngineModelFacts, type EngineModelState, type EngineState } from '../wire/engine-wire.ts';
import { EngineFault } from './engine-fault.ts';
import { EngineLine } from './engine-line.ts';
import { type AnswerBounds, EventCheck } from './event-check.ts';
import { RequestsInHand } from './requests-in-hand.ts';

export interface EngineTimes {
  /** time between two checks of an engine, ms */
  readonly lookMs: number;
  /** time limit of a check, ms */
  readonly answerMs: number;
  /** time without an answered check after which an engine counts as lost, with its requests, ms */
  readonly lostMs: number;
}

/** Checks detect a stalled process and a network that drops packets; broken connections detect a dead one. */
export const ENGINE_TIMES: EngineTimes = { lookMs: 2_000, answerMs: 3_000, lostMs: 15_000 };

/** Failed checks after which an engine gets no new requests. */
const SILENT_LOOKS = 2;

/** One remote engine, as of its last check. */
export class EngineLink implements RingMember {
  readonly name: string;
  readonly line: EngineLine;
  /** its newest known registration */
  member: Member;
  numChoices = 0;
  /** Its requests, which end when it is lost. */
  readonly inHand = new RequestsInHand();
  readonly counts = { requests: 0, failures: 0, losses: 0, tokens: 0 };
  readonly #times: EngineTimes;
  readonly #log: (line: string) => void;
  #state: EngineState | null = null;
  #problem: string | null = 'not checked yet';
  #isUnfit = false;
  /** Consecutive checks without an answer in time. */
  #numSilent = 0;
  #answeredAt = performance.now();

  constructor(options: {
    url: string;
    member: Member;
    secret: EngineSecret;
    times: EngineTimes;
    log: (line: string) => void;
  }) {
    this.name = options.url;
    this.member = options.member;
    this.#times = options.times;
    this.#log = options.log;
    this.line = new EngineLine(options.url, options.secret);
  }

  /** True if it takes requests. */
  get isUp(): boolean {
    return this.#problem === null && this.#state?.isDraining === false;
  }

  /** True if it answers checks, even if it takes no requests. */
  get isThere(): boolean {
    return this.#problem === null;
  }

  /** Problem that it reports about itself, such as a restarting part. */
  get ownProblem(): string | null {
    return this.#state?.trouble ?? null;
  }

  /** Its base models; empty before the first check. */
  get models(): readonly EngineModelState[] {
    return this.#state?.models ?? [];
  }

  modelOf(id: string): EngineModelState | null {
    return this.models.find(({ facts }) => facts.id === id) ?? null;
  }

  /** Difference that excludes it from an engine group with these facts, or null. */
  differenceFrom(other: EngineLink, facts: EngineModelFacts): string | null {
    const own = this.modelOf(facts.id)?.facts;
    if (own === undefined) return null;
    for (const name of ['vocabSize', 'contextLength', 'tokenizer'] as const)
      if (!isDeepStrictEqual(own[name], facts[name])) return `another ${NAMES[name]}`;
    const [digest, others] = [this, other].map(({ member }) => digestOf(member, facts.id));
    return digest !== null && others !== null && digest !== others ? 'other weights' : null;
  }

  asMember(): BackendMember {
    return {
      name: this.name,
      kind: 'engine',
      state: this.isUp ? 'up' : this.isThere ? 'draining' : this.#isUnfit ? 'unfit' : 'down',
      trouble: this.#problem ?? this.ownProblem,
      version: this.#state?.version ?? this.member.version,
      numChoices: this.numChoices,
      kvUse: kvUseOf(this.models),
      numAdapters: this.models.reduce((sum, { stats }) => sum + (stats?.numAdapters ?? 0), 0),
      adapters: this.models.flatMap(({ adapters }) => adapters),
      members: this.models.flatMap(({ members }) => members),
      numRequests: this.counts.requests,
      numFailures: this.counts.failures,
      numLosses: this.counts.losses,
      numTokens: this.counts.tokens,
    };
  }

  async look(): Promise<void> {
    const { answerMs, lostMs } = this.#times;
    const limit = deadlineAfter(answerMs);
    try {
      const state = await this.line.call<EngineState>(ENGINE_PATHS.state, {}, limit.signal);
      if (this.#problem !== null)
        this.#log(`the engine ${this.name} ${state.isDraining ? 'is shutting down' : 'accepts requests'}`);
      this.#state = state;
      this.#problem = null;
      this.#isUnfit = false;
      this.#numSilent = 0;
      this.#answeredAt = performance.now();
    } catch (error) {
      const isSilent = limit.signal.aborted;
      // One late answer means nothing on a machine that computes.
      if (!isSilent || ++this.#numSilent >= SILENT_LOOKS)
        this.suspect(isSilent ? new EngineFault('hangs', `${this.name} did not respond within ${answerMs} ms`) : error);
      if (performance.now() - this.#answeredAt >= lostMs) this.#lose();
    } finally {
      limit.cancel();
    }
  }

  /** Marks a failure: it gets no new requests until it answers a check. */
  suspect(error: unknown): void {
    const { message } = error as Error;
    if (this.#problem !== message) this.#log(`no requests for an engine: ${message}`);
    this.#problem = message;
    this.#isUnfit = error instanceof EngineFault && error.kind === 'unfit';
  }

  /** Its events of one request; see `EngineLine.generate`. */
  async *generate(
    text: string,
    bounds: AnswerBounds,
    signal: AbortSignal,
  ): AsyncGenerator<EngineEvent, void, undefined> {
    const { numChoices } = bounds;
    const check = new EventCheck(bounds);
    this.numChoices += numChoices;
    this.counts.requests += 1;
    const request = this.inHand.begin(signal);
    try {
      for await (const event of this.line.generate(text, request.signal)) {
        this.#check(check, event);
        if (event.kind === 'delta' || event.kind === 'finished') this.counts.tokens += event.tokenIds.length;
        yield event;
      }
    } finally {
      request.release();
      this.numChoices -= numChoices;
    }
  }

  /** @throws {EngineFault} */
  #check(check: EventCheck, event: EngineEvent): void {
    try {
      check.check(event);
    } catch (error) {
      throw new EngineFault('unfit', `${this.name} sent an invalid response: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  close(): void {
    this.inHand.close(new EngineFault('lost', `${this.name} is no longer used`));
    this.line.close();
  }

  #lose(): void {
    const { lostMs } = this.#times;
    this.inHand.abort(new EngineFault('hangs', `${this.name} did not respond for ${Math.round(lostMs / 1000)} s`));
  }
}

const NAMES = {
  vocabSize: 'vocabulary',
  contextLength: 'context length',
  tokenizer: 'chat template or tokenizer',
} as const;

function digestOf(member: Member, id: string): string | null {
  return member.baseModels.find((model) => model.id === id)?.fileDigest ?? null;
}

function kvUseOf(models: readonly EngineModelState[]): number | null {
  const known = models.flatMap(({ stats }) => (stats === null ? [] : [stats]));
  const capacity = known.reduce((sum, { capacityTokens }) => sum + capacityTokens, 0);
  return capacity === 0 ? null : known.reduce((sum, { usedTokens }) => sum + usedTokens, 0) / capacity;
}
