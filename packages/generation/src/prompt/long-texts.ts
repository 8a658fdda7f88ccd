import { Worker } from 'node:worker_threads';
import { fromFailure } from '@trainyard/backend';
import { TokenizerError } from '@trainyard/tokenizer';
import type { ChatPrompt } from '../contract/generate-request.ts';
import type { RenderedChat } from './chat.ts';
import type { LongTextAnswer, LongTextQuestion, LongTextThreadData } from './long-text-thread.ts';

interface Waiting {
  readonly question: LongTextQuestion;
  readonly signal: AbortSignal;
  readonly resolve: (answer: LongTextAnswer) => void;
  readonly reject: (error: unknown) => void;
}

export interface LongTextUse {
  /** Tenants take turns. */
  readonly tenant: string;
  readonly signal: AbortSignal;
}

/**
 * Renders long chats and encodes long texts in a separate thread, one at a time: 8 MB take seconds, in which
 * the stepping thread would be blocked for all. The thread starts with the first text, reads the vocabulary
 * of the model file again (about 20 MB), and stays.
 */
export class LongTexts {
  readonly #threadData: LongTextThreadData;
  #worker: Worker | null = null;
  /** Waiting texts by tenant, in order of turns; none is empty. */
  readonly #waiting = new Map<string, Waiting[]>();
  #current: Waiting | null = null;

  constructor(threadData: LongTextThreadData) {
    this.#threadData = threadData;
  }

  /**
   * Encodes as `Tokenizer.encodeWithSpecial`. @throws like it; the signal's reason if aborted while the text
   * waits
   */
  async encode(text: string, use: LongTextUse): Promise<Int32Array> {
    const answer = await this.#ask({ kind: 'text', text }, use);
    if (answer.kind !== 'ids') throw unexpected(answer);
    return answer.ids;
  }

  /**
   * Renders as `renderChat`, with the template of the model file, or with that of the prompt in a child
   * process.
   * @throws like it; the signal's reason if aborted while the chat waits
   */
  async render(prompt: ChatPrompt, use: LongTextUse): Promise<RenderedChat> {
    const answer = await this.#ask({ kind: 'chat', prompt }, use);
    if (answer.kind !== 'rendered') throw unexpected(answer);
    return answer.rendered;
  }

  close(): void {
    void this.#worker?.terminate();
    this.#fail(new Error('the tokenizer was closed'));
  }

  #ask(question: LongTextQuestion, { tenant, signal }: LongTextUse): Promise<LongTextAnswer> {
    return new Promise((resolve, reject) => {
      const own = this.#waiting.get(tenant);
      const waiting = { question, signal, resolve, reject };
      if (own === undefined) this.#waiting.set(tenant, [waiting]);
      else own.push(waiting);
      this.#next();
    });
  }

  #next(): void {
    if (this.#current !== null) return;
    for (;;) {
      const first = this.#take();
      if (first === undefined) {
        this.#worker?.unref();
        return;
      }
      if (first.signal.aborted) {
        first.reject(first.signal.reason);
        continue;
      }
      this.#worker ??= this.#start();
      try {
        this.#worker.postMessage(first.question);
      } catch (error) {
        // It cannot be sent, for example because it is nested too deep.
        first.reject(error);
        continue;
      }
      this.#current = first;
      this.#worker.ref();
      return;
    }
  }

  /** Takes the next text of the next tenant, which then waits for the others. */
  #take(): Waiting | undefined {
    for (const [tenant, own] of this.#waiting) {
      const first = own.shift();
      this.#waiting.delete(tenant);
      if (own.length > 0) this.#waiting.set(tenant, own);
      return first;
    }
    return undefined;
  }

  #start(): Worker {
    const worker = new Worker(new URL('./long-text-thread.ts', import.meta.url), { workerData: this.#threadData });
    worker.on('message', (answer: LongTextAnswer) => this.#answered(answer));
    worker.on('error', (error) => {
      if (this.#worker === worker) this.#fail(error);
    });
    return worker;
  }

  #answered(answer: LongTextAnswer): void {
    const current = this.#current;
    this.#current = null;
    if (answer.kind === 'refused') current?.reject(new TokenizerError(answer.code, answer.message));
    else if (answer.kind === 'failed') current?.reject(fromFailure(answer.failure));
    else current?.resolve(answer);
    this.#next();
  }

  /** Fails all texts after the thread has gone; the next text starts another. */
  #fail(error: unknown): void {
    this.#worker = null;
    this.#current?.reject(error);
    this.#current = null;
    const waiting = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    for (const { reject } of waiting) reject(error);
  }
}

const unexpected = ({ kind }: LongTextAnswer) => new Error(`the thread answered with ${kind}`);
