import { Worker } from 'node:worker_threads';
import { TokenizerError } from '@trainyard/tokenizer';
import type { LongTextAnswer, LongTextThreadData } from './long-text-thread.ts';

interface Waiting {
  readonly text: string;
  readonly signal: AbortSignal;
  readonly resolve: (ids: Int32Array) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Encodes long texts in a thread of its own, one at a time: of 8 MB that takes seconds, in which the thread that steps would stand still for everyone. The thread begins with the
 * first text, reads the vocabulary of the model file again (some 20 MB), and stays.
 */
export class LongTexts {
  readonly #modelPath: string;
  #worker: Worker | null = null;
  /** The first is in the thread's hands. */
  #waiting: Waiting[] = [];
  #isBusy = false;

  constructor(modelPath: string) {
    this.#modelPath = modelPath;
  }

  /** As `Tokenizer.encodeWithSpecial`. @throws as that; the signal's reason, where it was aborted before the text had its turn */
  encode(text: string, signal: AbortSignal): Promise<Int32Array> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, signal, resolve, reject });
      this.#next();
    });
  }

  /** Fails all that wait. */
  close(): void {
    void this.#worker?.terminate();
    this.#fail(new Error('the tokenizer was closed'));
  }

  #next(): void {
    if (this.#isBusy) return;
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) {
        this.#worker?.unref();
        return;
      }
      if (!first.signal.aborted) break;
      this.#waiting.shift();
      first.reject(first.signal.reason);
    }
    this.#isBusy = true;
    this.#worker ??= this.#start();
    this.#worker.ref();
    this.#worker.postMessage(this.#waiting[0]!.text);
  }

  #start(): Worker {
    const workerData: LongTextThreadData = { modelPath: this.#modelPath };
    const worker = new Worker(new URL('./long-text-thread.ts', import.meta.url), { workerData });
    worker.on('message', (answer: LongTextAnswer) => this.#answered(answer));
    worker.on('error', (error) => {
      if (this.#worker === worker) this.#fail(error);
    });
    return worker;
  }

  #answered(answer: LongTextAnswer): void {
    const first = this.#waiting.shift();
    this.#isBusy = false;
    if (answer.kind === 'ids') first?.resolve(answer.ids);
    else first?.reject(new TokenizerError(answer.code, answer.message));
    this.#next();
  }

  /** The thread is gone; the next text begins another. */
  #fail(error: unknown): void {
    this.#worker = null;
    this.#isBusy = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject } of waiting) reject(error);
  }
}
