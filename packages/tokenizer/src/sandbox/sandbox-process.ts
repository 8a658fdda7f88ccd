import { fork, type ChildProcess } from 'node:child_process';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { SandboxAnswer, SandboxQuestion } from './sandbox-messages.ts';

const CHILD = new URL('./sandbox-child.ts', import.meta.url);
// Starting takes 0.1 to 0.3 s; a busy machine must not fail requests.
const START_TIMEOUT_MS = 15_000;

/** A child that runs templates; dead once a question took too long. */
export class SandboxProcess {
  readonly #child: ChildProcess;
  readonly #ready: Promise<SandboxAnswer>;
  #waiter: PromiseWithResolvers<SandboxAnswer> | null = null;
  #death: Error | null = null;

  constructor(maxHeapMb: number) {
    this.#child = fork(CHILD, [], {
      // No writing, processes, threads or native code: a template engine needs none.
      execArgv: [
        '--conditions=@trainyard/source',
        '--permission',
        '--allow-fs-read=*',
        `--max-old-space-size=${maxHeapMb}`,
        '--disable-warning=ExperimentalWarning',
      ],
      // Templates write the local time (`strftime_now`); they may read no other variable.
      env: process.env['TZ'] === undefined ? {} : { TZ: process.env['TZ'] },
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    this.#child.on('message', (answer: SandboxAnswer) => {
      this.#waiter?.resolve(answer);
    });
    this.#child.on('error', (cause) => this.#die(cause));
    this.#child.once('exit', (code, signal) => this.#die(new Error(`it ended (${signal ?? `code ${code}`})`)));
    this.#ready = this.#answer(START_TIMEOUT_MS);
    this.#ready.catch(() => {}); // the first caller awaits it too
  }

  get isDead(): boolean {
    return this.#death !== null;
  }

  /** @throws {Error} if it does not start */
  async start(): Promise<void> {
    await this.#ready;
  }

  /**
   * Asks one question at a time. The child is dead after the time limit, or if it runs out of memory.
   *
   * @throws {TokenizerError} `tokenizer.template_failed` with the child's reason
   */
  async ask(question: SandboxQuestion, timeoutMs: number): Promise<SandboxAnswer> {
    let answer: SandboxAnswer;
    try {
      if (this.#death === null) this.#child.send(question, (error) => error !== null && this.#die(error));
      answer = await this.#answer(timeoutMs);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new TokenizerError('tokenizer.template_failed', `the chat template was stopped: ${reason}`, { cause });
    }
    if (answer.kind === 'failed') throw new TokenizerError('tokenizer.template_failed', answer.reason);
    return answer;
  }

  kill(): void {
    this.#die(new Error('the sandbox was closed'));
  }

  async #answer(timeoutMs: number): Promise<SandboxAnswer> {
    if (this.#death !== null) throw this.#death;
    const waiter = Promise.withResolvers<SandboxAnswer>();
    this.#waiter = waiter;
    this.#hold(true);
    const timer = setTimeout(() => {
      // An answer that arrived while this process was busy takes precedence.
      setImmediate(() => {
        if (this.#waiter === waiter) this.#die(new Error(`it ran longer than ${timeoutMs} ms`));
      });
    }, timeoutMs);
    try {
      return await waiter.promise;
    } finally {
      clearTimeout(timer);
      this.#waiter = null;
      this.#hold(false);
    }
  }

  #hold(isBusy: boolean): void {
    if (isBusy) {
      this.#child.ref();
      this.#child.channel?.ref();
    } else {
      this.#child.unref();
      this.#child.channel?.unref();
    }
  }

  #die(reason: Error): void {
    if (this.#death !== null) return;
    this.#death = reason;
    this.#child.kill('SIGKILL');
    this.#waiter?.reject(reason);
  }
}
