import { TrainerError } from '@trainyard/trainer';

import { accepted, failedOperation, type TinkerSession } from './session.ts';
import { detailOf, jsonOf, NoReply, PROTOBUF_TYPE, type Reply } from './tinker-http.ts';

/** Servers hold a poll for half a minute, or for five; polling earlier avoids time-outs of proxies. */
const POLL_TIMEOUT_MS = 45_000;
const LIFE_CHECK_TIMEOUT_MS = 10_000;
/** Consecutive polls and life checks without any answer from a server that hangs. */
const MAX_SILENT_POLLS = 4;
const MAX_PAUSE_MS = 30_000;
const BILLING_PAUSE_MS = 5_000;
const MAX_EMPTY_REFUSALS = 3;

export interface FutureOptions {
  /** SDK name of the request: `ForwardBackward`, `OptimStep`. */
  readonly kind: string;
  /** True to request the result in protobuf. */
  readonly isProtobuf?: boolean;
  readonly deadlineMs: number;
  /** Called once for each reason that the operation waits for. */
  readonly onQueued?: (state: string) => void;
  readonly signal?: AbortSignal;
}

export type FutureResult =
  | { readonly kind: 'protobuf'; readonly bytes: Uint8Array }
  | { readonly kind: 'json'; readonly value: unknown };

/**
 * @throws {TrainerError} `trainer.host_lost` if the server hangs or has lost the operation; the operation's
 * failure; the abort reason of `signal`
 */
export async function awaitFuture(
  session: TinkerSession,
  requestId: string,
  options: FutureOptions,
): Promise<FutureResult> {
  const { http } = session;
  const { clock } = http;
  const { kind, isProtobuf = false, deadlineMs, onQueued, signal } = options;
  const startedAt = clock.now();
  let numSilent = 0;
  let numBusy = 0;
  let numEmptyRefusals = 0;
  let wantsMetadata = false;
  let lastState: string | null = null;
  const queued = (state: string | null): void => {
    if (state !== null && state !== lastState) onQueued?.(state);
    lastState = state;
  };
  for (let iteration = 0; ; iteration++) {
    session.requireAlive();
    if (clock.now() - startedAt > deadlineMs)
      throw new TrainerError(
        'trainer.host_lost',
        `the Tinker server did not finish ${kind} within ${Math.round(deadlineMs / 1000)} s${shownState(lastState)}. ` +
          'Check its log, or raise --trainer-timeout-seconds',
      );
    const reply = await poll(session, requestId, { iteration, wantsMetadata, kind, isProtobuf, signal });
    if (reply instanceof NoReply) {
      numSilent = (await isAlive(session)) ? 0 : numSilent + 1;
      if (numSilent >= MAX_SILENT_POLLS)
        throw new TrainerError(
          'trainer.host_lost',
          `the Tinker server hangs: ${reply.message} to ${kind} or to its health check`,
        );
      if (reply.reason !== 'TIMEOUT') await clock.sleep(Math.min(MAX_PAUSE_MS, 1000 * 2 ** numSilent), signal);
      continue;
    }
    numSilent = 0;
    if (reply.status === 429) {
      await clock.sleep(Math.min(MAX_PAUSE_MS, 1000 * 2 ** numBusy++), signal);
      continue;
    }
    if (reply.status === 402) {
      queued('paused_billing');
      await clock.sleep(BILLING_PAUSE_MS, signal);
      continue;
    }
    if (reply.status === 408 || reply.status >= 500) {
      queued(queueState(reply));
      if (reply.status >= 500) await clock.sleep(Math.min(MAX_PAUSE_MS, 1000 * 2 ** numBusy++), signal);
      continue;
    }
    if (reply.status === 410) throw new TrainerError('trainer.host_lost', `the Tinker server lost ${kind} (410)`);
    // An empty 400 may come from a proxy; a server's own has a reason.
    if (reply.status === 400 && detailOf(reply) === '' && ++numEmptyRefusals < MAX_EMPTY_REFUSALS) continue;
    if (reply.status === 400) throw failedOperation(`the Tinker server failed at ${kind}: ${detailOf(reply)}`);
    accepted(reply, `retrieve_future (${kind})`);
    if (reply.headers.get('content-type')?.includes(PROTOBUF_TYPE)) return { kind: 'protobuf', bytes: reply.body };
    const value = jsonOf(reply);
    const fields = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
    if (typeof fields['error'] === 'string')
      throw failedOperation(`the Tinker server failed at ${kind}: ${fields['error']}`);
    if (fields['type'] === 'try_again') {
      queued(typeof fields['queue_state'] === 'string' ? fields['queue_state'] : null);
      continue;
    }
    if (fields['status'] === 'complete_metadata') {
      wantsMetadata = true;
      continue;
    }
    return { kind: 'json', value };
  }
}

interface Poll {
  readonly iteration: number;
  /** The result was announced by its size: fetch all of it. */
  readonly wantsMetadata: boolean;
  readonly kind: string;
  readonly isProtobuf: boolean;
  readonly signal: AbortSignal | undefined;
}

async function poll(session: TinkerSession, requestId: string, options: Poll): Promise<Reply | NoReply> {
  const { iteration, wantsMetadata, kind, isProtobuf, signal } = options;
  try {
    return await session.http.sendOnce('POST', 'retrieve_future', {
      body: { request_id: requestId, ...(wantsMetadata ? { allow_metadata_only: false } : {}) },
      headers: {
        'x-tinker-request-iteration': String(iteration),
        'x-tinker-request-type': kind,
        ...(isProtobuf ? { accept: PROTOBUF_TYPE } : {}),
      },
      timeoutMs: POLL_TIMEOUT_MS,
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    if (error instanceof NoReply) return error;
    throw error;
  }
}

/** Checks health, because a server may hold a poll for longer than the time-out. */
async function isAlive({ http }: TinkerSession): Promise<boolean> {
  try {
    return (await http.sendOnce('GET', 'healthz', { timeoutMs: LIFE_CHECK_TIMEOUT_MS })).status < 500;
  } catch (error) {
    if (error instanceof NoReply) return false;
    throw error;
  }
}

function shownState(state: string | null): string {
  return state === null ? '' : ` (${state})`;
}

function queueState({ body }: Reply): string | null {
  try {
    const { queue_state: state } = JSON.parse(Buffer.from(body).toString('utf8')) as { queue_state?: unknown };
    return typeof state === 'string' ? state : null;
  } catch {
    return null;
  }
}
