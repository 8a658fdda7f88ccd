import { Worker } from 'node:worker_threads';

import { type Blobs, StoreError } from '@trainyard/store';

import type { FindRecords } from '../../training-data/choice-records/wanted-records.ts';

import { RequestError } from '../../seams/faults/request-error.ts';
import { blobSecrets, childEnvironment, childFlags } from '../../hosts/process/child-environment.ts';
import type { BodyThreadCommand, BodyThreadMessage, BodyThreadOptions } from './messages.ts';
import { fromThreadFailure, toThreadFailure } from './thread-failure.ts';
import type {
  BodySummary,
  StoredGroups,
  StoreGroupsOptions,
  TrajectoryBody,
  TrajectoryBodyKind,
} from './trajectory-body.ts';

/**
 * Heap of the thread, which holds one body at a time as text and as objects: 61 MB of trajectories took 0.55
 * GB including the received bytes. A body that does not fit ends the thread, never the service.
 */
const MAX_HEAP_MB = 4096;
/** An idle thread is ended, because a grown heap does not shrink by itself. */
const END_AFTER_IDLE_MS = 60_000;

/** A body that is sent to the thread, or processed there. */
interface ThreadCall {
  settle(message: BodyThreadMessage): void;
  fail(error: Error): void;
  /** Answers the thread's queries for records. */
  find: FindRecords | null;
}

type FindQuestion = Extract<BodyThreadMessage, { kind: 'find' }>;

/** Thread that parses large bodies; started with the first one. */
export class BodyThread {
  readonly #options: BodyThreadOptions;
  readonly #log: (line: string) => void;
  readonly #maxHeapMb: number;
  #worker: Worker | null = null;
  #idleTimer: NodeJS.Timeout | null = null;
  #numBodies = 0;
  /** Bodies that the thread has, oldest first. */
  readonly #open = new Set<number>();
  /** Calls without a reply, in the thread's order of work. */
  readonly #calls = new Map<number, ThreadCall>();

  constructor(options: BodyThreadOptions, log: (line: string) => void, maxHeapMb = MAX_HEAP_MB) {
    this.#options = options;
    this.#log = log;
    this.#maxHeapMb = maxHeapMb;
  }

  /**
   * Reads a whole body into the thread.
   * @throws {RequestError} as `ParsedTrajectoryBody.parse`; `request.body_too_large` if its objects do not
   * fit into the thread's heap
   */
  async read<Kind extends TrajectoryBodyKind>(
    chunks: AsyncIterable<Uint8Array>,
    bodyKind: Kind,
  ): Promise<TrajectoryBody<Kind>> {
    const id = (this.#numBodies += 1);
    this.#open.add(id);
    try {
      for await (const chunk of chunks) {
        // A chunk of the socket's own buffer cannot be transferred: it is copied, 64 KB at most.
        const bytes = Uint8Array.from(chunk);
        this.#send({ kind: 'chunk', id, bytes }, [bytes.buffer]);
      }
      const parsed = await this.#call(id, { kind: 'end', id, bodyKind });
      if (parsed.kind !== 'parsed') throw new Error(`the body thread answered ${parsed.kind} for end`);
      return {
        summary: parsed.summary as BodySummary<Kind>,
        store: (options, find) => this.#store(id, options, find),
        discard: () => this.#discard(id),
      };
    } catch (error) {
      this.#discard(id);
      throw error;
    }
  }

  /** Opens the blobs in the thread. @throws {StoreError} `store.unavailable` */
  async check(): Promise<void> {
    const id = (this.#numBodies += 1);
    this.#open.add(id);
    this.#running();
    try {
      await this.#call(id, { kind: 'open', id });
    } catch (error) {
      if (error instanceof StoreError)
        throw new StoreError(error.code, `${error.message} (from the thread that reads large bodies)`);
      throw error;
    } finally {
      this.#discard(id);
    }
  }

  async close(): Promise<void> {
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    const worker = this.#worker;
    this.#worker = null;
    await worker?.terminate();
  }

  async #store(id: number, options: StoreGroupsOptions, find: FindRecords | null): Promise<StoredGroups> {
    const reply = await this.#call(id, { kind: 'store', id, options, findsRecords: find !== null }, find);
    if (reply.kind !== 'stored') throw new Error(`the body thread answered ${reply.kind} for store`);
    return reply.stored;
  }

  #discard(id: number): void {
    if (!this.#open.delete(id)) return;
    // A restarted thread does not have the body.
    if (this.#worker !== null) this.#send({ kind: 'discard', id });
    if (this.#open.size > 0) return;
    this.#idleTimer = setTimeout(() => void this.close(), END_AFTER_IDLE_MS).unref();
  }

  #call(id: number, command: BodyThreadCommand, find: FindRecords | null = null): Promise<BodyThreadMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<BodyThreadMessage>();
    // A restarted thread has lost the body.
    if (this.#worker === null || !this.#open.has(id)) return Promise.reject(lostBody());
    this.#calls.set(id, { settle: resolve, fail: reject, find });
    this.#send(command);
    return promise.finally(() => this.#calls.delete(id));
  }

  #send(command: BodyThreadCommand, transfer: ArrayBuffer[] = []): void {
    this.#running().postMessage(command, transfer);
  }

  #running(): Worker {
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
    this.#worker ??= this.#start();
    return this.#worker;
  }

  #start(): Worker {
    const worker = new Worker(new URL('./body-thread.ts', import.meta.url), {
      workerData: this.#options,
      env: childEnvironment(blobSecrets(this.#options.blobs)),
      execArgv: childFlags(),
      resourceLimits: { maxOldGenerationSizeMb: this.#maxHeapMb },
    });
    worker.unref();
    worker.on('message', (message: BodyThreadMessage) => {
      const call = this.#calls.get(message.id);
      if (message.kind === 'failed') call?.fail(fromThreadFailure(message.failure));
      else if (message.kind === 'find') void this.#answer(worker, message, call?.find ?? null);
      else call?.settle(message);
    });
    worker.on('error', (error) => this.#onLost(worker, error));
    worker.on('exit', () => this.#onLost(worker, new Error('the body thread has ended')));
    return worker;
  }

  async #answer(worker: Worker, { id, recordIds }: FindQuestion, find: FindRecords | null): Promise<void> {
    let answer: BodyThreadCommand;
    try {
      answer = { kind: 'found', id, records: (await find?.(recordIds)) ?? new Map() };
    } catch (error) {
      answer = { kind: 'find_failed', id, failure: toThreadFailure(error) };
    }
    worker.postMessage(answer);
  }

  /** All bodies of the thread are lost. The current one fails as too large if that was the reason. */
  #onLost(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return;
    this.#worker = null;
    this.#log(`the body thread is gone: ${error.message}`);
    const isOutOfMemory = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
    this.#open.clear();
    for (const [index, call] of [...this.#calls.values()].entries())
      call.fail(isOutOfMemory && index === 0 ? tooLarge(this.#maxHeapMb) : lostBody());
  }
}

function tooLarge(maxHeapMb: number): RequestError {
  const message = `Parsing the body needs more than ${maxHeapMb} MB of memory: split it into several requests`;
  return new RequestError('request.body_too_large', message);
}

function lostBody(): RequestError {
  return new RequestError('server.unavailable', 'The body was lost while it was being read; send it again', {
    headers: { 'retry-after': '1' },
  });
}

/**
 * Checks remote blobs from a thread like that of large bodies: threads have their own environment.
 * @throws {StoreError} `store.unavailable`
 */
export async function checkBodyThread(blobs: Blobs, log: (line: string) => void): Promise<void> {
  if (blobs.location.kind === 'folder') return;
  const thread = new BodyThread({ blobs: blobs.location }, log);
  await thread.check().finally(() => thread.close());
}
