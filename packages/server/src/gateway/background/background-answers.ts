import type { Response, ResponseEvent } from '@trainyard/protocol';
import {
  type AnswerKey,
  type ConversationTurn,
  type KeptAnswers,
  type LiveAnswer,
  type LostAnswer,
  type Store,
  StoreError,
} from '@trainyard/store';

import { isKeyValid } from '../edge/valid-key.ts';
import { clientFailure } from '../../seams/faults/http-faults.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import type { Log } from '../../seams/logging/log.ts';
import { failedState, isEnded, toState } from './answer-states.ts';
import { EventBatches } from './event-batches.ts';

/** Time without a sign of life after which an answer counts as lost for other processes. */
export const ANSWER_LEASE_MS = 30_000;
const RENEWED_MS = 10_000;
/** Interval at which a process checks if its answers were cancelled or their keys revoked. */
const LOOK_MS = 1_000;
const LOST_EVERY_MS = 15_000;
/** Longer than the time between two heartbeats. */
const SILENT_MS = 12_000;
/** Time after which an answer that seemed lost has ended or been renewed. */
const FORGOTTEN_MS = 120_000;
const LOST_AT_ONCE = 100;
/** Longest wait for events of another process. */
const POLL_MS = 250;
const RETRY_MS = 1_000;
const MAX_RETRIES = 300;

/** The same limit in time, once the service stops. */
const LAST_TRIES_MS = 2_000;
/** Events written with the row, so that readers know that events are kept. */
const NUM_FIRST = 1;

/** Reason to stop a run whose answer was cancelled, deleted or lost. */
const GONE = new DOMException('the answer ended in another process', 'AbortError');
const LOST = {
  code: 'server.unavailable',
  message: 'The process that computed the answer ended. Send the request again',
};

/** An answer to compute after its request was answered. */
export interface BackgroundWork {
  /** Its row exists, with a lease of {@link ANSWER_LEASE_MS}; if its events are kept, with the first one. */
  readonly answer: LiveAnswer;
  /** API key of the request: revoking it ends the answer. */
  readonly keyId: string;
  readonly opening: Response;
  /** True if its events are kept. */
  readonly isStreamed: boolean;
  /** Items for its conversation after this end; null for none. Written together with the end. */
  readonly turnOf: (ended: Response) => ConversationTurn | null;
  /** Computes the answer, once, and reports the events of its stream, starting with number 0. */
  readonly run: (signal: AbortSignal, onEvent: (event: ResponseEvent) => Promise<void>) => Promise<void>;
}

interface Run extends Pick<BackgroundWork, 'answer' | 'keyId'> {
  readonly controller: AbortController;
  batches: EventBatches | null;
  done: Promise<void>;
}

export interface BackgroundAnswersOptions {
  readonly store: Pick<Store, 'keys' | 'clock' | 'database'> & { readonly keptAnswers: KeptAnswers };
  readonly log: Log;
}

/**
 * Answers that this process computes after their requests were answered. Each ends in exactly one state,
 * because the final write needs a live row.
 */
export class BackgroundAnswers {
  readonly #store: BackgroundAnswersOptions['store'];
  readonly #log: Log;
  /** Keyed by row, because an id may be reused before the end of its earlier answer was noticed. */
  readonly #runs = new Map<number, Run>();
  /** Readers of events, by the name of their answer. */
  readonly #wakes = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | null = null;
  #renewedAt = -Infinity;
  #numLostConnections = 0;
  /** Answers of other processes with expired leases, and when this process noticed, in its own time. */
  readonly #seenLost = new Map<number, { readonly leaseEndedAt: number; readonly at: number }>();
  readonly #lostTimer: NodeJS.Timeout;
  #closedAt = Infinity;

  constructor({ store, log }: BackgroundAnswersOptions) {
    this.#store = store;
    this.#log = log;
    this.#lostTimer = setInterval(() => void this.#endAllLost(), LOST_EVERY_MS).unref();
  }

  get numRunning(): number {
    return this.#runs.size;
  }

  start(work: BackgroundWork): void {
    const { answer, keyId } = work;
    const controller = new AbortController();
    const run: Run = { answer, keyId, controller, batches: null, done: Promise.resolve() };
    this.#runs.set(answer.row, run);
    run.done = this.#run(work, run)
      .catch((error: unknown) =>
        this.#log(`cannot record the end of answer ${answer.id}: ${String(error)}`, { level: 'error' }),
      )
      .finally(() => {
        this.#runs.delete(answer.row);
        this.#wake(answer);
      });
    this.#timer ??= setInterval(() => void this.#look(), LOOK_MS).unref();
  }

  /** Called when an answer may have ended elsewhere: if this process computes it, it checks at once. */
  ended(key: AnswerKey): void {
    void this.#look();
    this.#wake(key);
  }

  /**
   * Fails an answer whose process is gone. Clocks jump and machines sleep, so an expired lease is no proof:
   * there must also be no heartbeat for {@link SILENT_MS} of this process's own time.
   */
  async endLost(lost: LostAnswer): Promise<void> {
    const { keptAnswers } = this.#store;
    if (this.#runs.has(lost.row) || !this.#isSilent(lost)) return;
    const found = await keptAnswers.find(lost, lost.id);
    if (found !== null) await keptAnswers.end(lost, failedState(found.answer, LOST), lost);
  }

  #isSilent(lost: LostAnswer): boolean {
    if (lost.leaseEndedAt === 0) return true;
    const now = performance.now();
    const seen = this.#seenLost.get(lost.row);
    if (seen?.leaseEndedAt === lost.leaseEndedAt) return now - seen.at >= SILENT_MS;
    this.#seenLost.set(lost.row, { leaseEndedAt: lost.leaseEndedAt, at: now });
    return false;
  }

  /** Resolves when an answer may have new events or a new state. */
  async nextChange(key: AnswerKey): Promise<void> {
    const name = nameOf(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    const wakes = this.#wakes.get(name) ?? new Set();
    this.#wakes.set(name, wakes.add(resolve));
    const timer = setTimeout(resolve, POLL_MS);
    await promise;
    clearTimeout(timer);
    wakes.delete(resolve);
    if (wakes.size === 0 && this.#wakes.get(name) === wakes) this.#wakes.delete(name);
  }

  /**
   * Resolves when all answers of this process have ended. Final writes that fail are given up after {@link
   * LAST_TRIES_MS}.
   */
  async close(): Promise<void> {
    this.#closedAt = performance.now();
    clearInterval(this.#lostTimer);
    while (this.#runs.size > 0) await Promise.all([...this.#runs.values()].map(({ done }) => done));
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  async #run({ answer, opening, isStreamed, run, turnOf }: BackgroundWork, own: Run): Promise<void> {
    const { keptAnswers } = this.#store;
    const { controller } = own;
    const batches = new EventBatches(async (events) => {
      if (!(await keptAnswers.update(answer, { events }))) controller.abort(GONE);
      this.#wake(answer);
    }, NUM_FIRST);
    own.batches = batches;
    let ended: Response | null = null;
    const onEvent = async (event: ResponseEvent): Promise<void> => {
      controller.signal.throwIfAborted();
      const isLast = 'response' in event && isEnded(event.response.status);
      if (isStreamed && event.sequence_number >= NUM_FIRST) {
        if (isLast) batches.end(event);
        else batches.add(event);
      }
      if (!('response' in event)) return;
      if (isLast) ended = event.response;
      else if (event.type === 'response.in_progress') void this.#publish(answer, event.response, controller);
    };
    try {
      await run(controller.signal, onEvent);
      if (ended === null) throw new Error('a background answer ended without its last event');
    } catch (thrown) {
      if (controller.signal.reason === GONE) return batches.stop();
      const error = clientFailure(controller.signal.aborted ? controller.signal.reason : thrown);
      if (error.code === 'internal') this.#log(`the answer ${answer.id} failed: ${String(thrown)}`, { level: 'error' });
      ended = { ...opening, status: 'failed', error };
      if (isStreamed) batches.end({ type: 'response.failed', sequence_number: batches.numEvents, response: ended });
    }
    await this.#finish(answer, ended, batches, turnOf(ended));
  }

  /** Writes that an answer is in progress. Not awaited: a brief loss of the database costs no answer. */
  async #publish(answer: LiveAnswer, response: Response, controller: AbortController): Promise<void> {
    while (this.#runs.has(answer.row)) {
      try {
        if (!(await this.#store.keptAnswers.update(answer, { state: toState(response) }))) controller.abort(GONE);
        return;
      } catch (error) {
        if (!isPassing(error)) return;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** Retries the final write while the database is away. */
  async #finish(
    answer: LiveAnswer,
    ended: Response,
    batches: EventBatches,
    turn: ConversationTurn | null,
  ): Promise<void> {
    await batches.settled();
    const events = batches.take();
    const startedAt = performance.now();
    for (let attempt = 0; ; attempt += 1) {
      try {
        this.#noticeLostConnections();
        await batches.restore();
        await this.#store.keptAnswers.update(answer, {
          state: toState(ended),
          ...(events === null ? {} : { events }),
          ...(turn === null ? {} : { turn }),
        });
        return;
      } catch (error) {
        batches.doubt(error);
        const isGivenUp = performance.now() - Math.max(startedAt, this.#closedAt) > LAST_TRIES_MS;
        if (!isPassing(error) || attempt === MAX_RETRIES || isGivenUp) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  async #look(): Promise<void> {
    if (this.#runs.size === 0) return;
    const { keptAnswers } = this.#store;
    this.#noticeLostConnections();
    try {
      const before = new Map(this.#runs);
      const own = new Set((await keptAnswers.listOwn()).map(({ row }) => row));
      for (const [row, { controller }] of before) if (!own.has(row)) controller.abort(GONE);
      if (performance.now() - this.#renewedAt >= RENEWED_MS) {
        // Renews only computed answers: a row without a run must be found lost.
        await keptAnswers.renew(
          [...before.values()].map(({ answer }) => answer),
          ANSWER_LEASE_MS,
        );
        this.#renewedAt = performance.now();
      }
      for (const keyId of new Set([...before.values()].map((run) => run.keyId))) {
        if (await this.#isValid(keyId)) continue;
        for (const run of before.values())
          if (run.keyId === keyId)
            run.controller.abort(new RequestError('request.unauthenticated', 'The API key was revoked or has expired'));
      }
    } catch (error) {
      // The store is busy, away or closing: the next check follows.
      for (const { batches } of this.#runs.values()) batches?.doubt(error);
    }
  }

  /** A database that crashes between two calls fails none, and may have lost the latest writes. */
  #noticeLostConnections(): void {
    const number = this.#store.database.numLostConnections();
    if (number === this.#numLostConnections) return;
    this.#numLostConnections = number;
    for (const { batches } of this.#runs.values()) batches?.doubtWrites();
  }

  async #isValid(keyId: string): Promise<boolean> {
    const key = await this.#store.keys.get(keyId);
    return key !== null && isKeyValid(key, this.#store.clock.now());
  }

  async #endAllLost(): Promise<void> {
    try {
      for (const [row, { at }] of this.#seenLost) if (performance.now() - at > FORGOTTEN_MS) this.#seenLost.delete(row);
      for (const lost of await this.#store.keptAnswers.listLost(LOST_AT_ONCE)) await this.endLost(lost);
    } catch {
      // Retried at the next interval.
    }
  }

  #wake(key: AnswerKey): void {
    for (const wake of this.#wakes.get(nameOf(key)) ?? []) wake();
  }
}

/** True if the same write may work soon. */
function isPassing(error: unknown): boolean {
  return error instanceof StoreError && error.code !== 'store.closed';
}

function nameOf({ entityId, project, id }: AnswerKey): string {
  return JSON.stringify([entityId, project, id]);
}
