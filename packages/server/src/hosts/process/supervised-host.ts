import { fork, type ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';

import { lowerPriority } from '../computing/niceness.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import { childEnvironment, childFlags } from './child-environment.ts';
import { ProcessMemory } from '../computing/process-memory.ts';
import { HostPulse } from './host-pulse.ts';
import { DEFAULT_WATCH_LIMITS, type WatchLimits } from './host-watch.ts';
import { LIFE_SIGNS_FD } from './life-signs.ts';
import type { HostFailure } from './messages.ts';

/**
 * First restart delay; doubles up to the maximum while the host keeps ending, and is reset once it has run
 * for a while.
 */
const FIRST_RESTART_DELAY_MS = 100;
const MAX_RESTART_DELAY_MS = 10_000;
const STABLE_AFTER_MS = 30_000;
/** Time for a host to finish its work at shutdown. Longer than any engine step or layer run. */
const SHUTDOWN_GRACE_MS = 5_000;
/** Part of a dead host's stderr that the report includes. */
const STDERR_TAIL_CHARACTERS = 2_000;

const DEFAULT_MEMORY_REMEDY = 'add memory to the machine or container, or lower --model-memory-megabytes';

/** Reasons why a system refuses to start a process, with the remedy, by their code. */
const REFUSALS: Readonly<Record<string, string>> = {
  EAGAIN: 'too many processes and threads; raise the limit (ulimit -u, pids.max, TasksMax)',
  EMFILE: 'too many open files; raise the limit (ulimit -n, LimitNOFILE)',
  ENFILE: 'too many open files on this machine; raise the limit (fs.file-max)',
  ENOMEM: 'not enough memory',
};

type HostMessage = { kind: string };

export interface SupervisedHostOptions<Message extends HostMessage> {
  readonly name: string;
  /** absolute path of the host's main module */
  readonly modulePath: string;
  /** passed as JSON in the first argument */
  readonly options: unknown;
  /** File that it opens, for the message of a failed start. Default: none. */
  readonly file?: string;
  /** environment variables, which other users cannot read, unlike its arguments */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly onMessage: (message: Message) => void;
  /** called once per process when it has ended, for any reason, also at the end of `close` */
  readonly onLost: (reason: string) => void;
  /** called when it is killed after too long without a sign of life; `onLost` follows at its end */
  readonly onHung?: () => void;
  readonly log: (line: string) => void;
  /** remedy if its memory ran out, a sentence for `onLost`; default: only the log has one */
  readonly memoryRemedy?: string;
  /** niceness relative to this process; default 0 */
  readonly niceness?: number;
  /** limits for hanging, default `DEFAULT_WATCH_LIMITS` */
  readonly watchLimits?: WatchLimits;
}

/**
 * A child process that is restarted whenever it ends, until it is closed. The host sends `ready` once it can
 * work, or `fatal` with a reason if it never will with these options. A fatal before the first `ready`
 * rejects `start`; later ones are retried, because a model file can come back. A hanging host (see
 * `HostWatch`) is killed and restarted.
 */
export class SupervisedHost<Command extends object, Message extends HostMessage> {
  readonly #options: SupervisedHostOptions<Message>;
  #child: ChildProcess | null = null;
  #pulse: HostPulse | null = null;
  #isReady = false;
  #wasEverReady = false;
  #isClosing = false;
  #restartDelayMs = FIRST_RESTART_DELAY_MS;
  #restartTimer: NodeJS.Timeout | null = null;
  #stableTimer: NodeJS.Timeout | null = null;
  #stderrTail = '';
  #lastEnding: string | null = null;
  #ready = Promise.withResolvers<void>();

  constructor(options: SupervisedHostOptions<Message>) {
    this.#options = options;
  }

  /** Reason why it does not work as it should, for people; null if all is well. */
  get problem(): string | null {
    if (!this.#isReady)
      return this.#lastEnding === null ? 'it is being started' : `it is being restarted: ${this.#lastEnding}`;
    return this.#pulse?.problem ?? null;
  }

  /** Resolves when the host is ready; rejects if its first process ends before that. */
  async start(): Promise<void> {
    this.#spawn();
    await this.#ready.promise;
  }

  /** Resolves when the host is ready, now or after a restart. @throws {ServerError} `server.host_unavailable` after `timeoutMs` */
  async whenReady(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (this.#isReady) return;
    const timeout = AbortSignal.timeout(timeoutMs);
    const either = signal === undefined ? timeout : AbortSignal.any([timeout, signal]);
    const aborted = Promise.withResolvers<never>();
    const onAbort = () =>
      aborted.reject(
        new ServerError(
          'server.host_unavailable',
          `the ${this.#options.name} host did not restart within ${timeoutMs} ms`,
        ),
      );
    either.addEventListener('abort', onAbort, { once: true });
    try {
      await Promise.race([this.#ready.promise, aborted.promise]);
    } finally {
      either.removeEventListener('abort', onAbort);
    }
  }

  /** @returns false without a process; the message is then dropped */
  send(command: Command): boolean {
    if (this.#child === null || !this.#child.connected) return false;
    this.#child.send(command);
    return true;
  }

  /** Asks the host to end, waits, and kills it if it does not. Leaves no process running. */
  async close(): Promise<void> {
    this.#isClosing = true;
    if (this.#restartTimer !== null) clearTimeout(this.#restartTimer);
    const child = this.#child;
    if (child === null) return;
    const exited = Promise.withResolvers<void>();
    child.once('exit', () => exited.resolve());
    if (child.exitCode !== null || child.signalCode !== null) return;
    if (child.connected) child.send({ kind: 'shutdown' });
    const killTimer = setTimeout(() => child.kill('SIGKILL'), SHUTDOWN_GRACE_MS);
    await exited.promise;
    clearTimeout(killTimer);
  }

  #spawn(): void {
    const { name, niceness = 0, log } = this.#options;
    const child = this.#fork();
    if (child === null) return;
    this.#child = child;
    // Before it starts threads, which inherit it.
    const refusal = child.pid === undefined ? null : lowerPriority(child.pid, niceness);
    if (refusal !== null) log(`the ${name} host runs at normal priority: ${refusal}`);
    let hungBecause: string | null = null;
    const memory = new ProcessMemory();
    const pulse = new HostPulse({
      signs: child.stdio[LIFE_SIGNS_FD] as Readable,
      isReady: () => this.#isReady,
      onLook: () => child.pid !== undefined && memory.look(child.pid),
      limits: this.#options.watchLimits ?? DEFAULT_WATCH_LIMITS,
      onHung: (reason) => {
        hungBecause = reason;
        this.#options.onHung?.();
        // A stopped process accepts no other signal.
        child.kill('SIGKILL');
      },
    });
    this.#pulse = pulse;
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderrTail = (this.#stderrTail + text).slice(-STDERR_TAIL_CHARACTERS);
    });
    let fatal: HostFailure | null = null;
    child.on('message', (message: Message & { failure?: HostFailure }) => {
      if (message.kind === 'fatal' && message.failure !== undefined) fatal = message.failure;
      this.#options.onMessage(message);
      if (message.kind === 'ready') this.#onReady();
    });
    // A failed send is followed by the exit that caused it.
    child.on('error', (error) => this.#options.log(`${name} host: ${error.message}`));
    child.once('exit', (code, signal) => {
      pulse.stop();
      const ofMemory = hungBecause !== null || this.#isClosing ? null : memory.endOf(signal, this.#stderrTail);
      const { memoryRemedy = null } = this.#options;
      const ending =
        hungBecause === null
          ? (ofMemory ?? `it ended with ${signal ?? `exit code ${code}`}`)
          : `${hungBecause} and was killed`;
      this.#lastEnding = ending;
      if (ofMemory !== null && memoryRemedy === null) log(`the ${name} host: ${DEFAULT_MEMORY_REMEDY}`);
      this.#onExit(fatal, ofMemory === null || memoryRemedy === null ? ending : `${ending}. ${memoryRemedy}`);
    });
  }

  /**
   * Null if the system did not start a process. Then there is no exit, and the reason is reported as its
   * ending.
   */
  #fork(): ChildProcess | null {
    const { modulePath, options } = this.#options;
    this.#stderrTail = '';
    try {
      const child = fork(modulePath, [JSON.stringify(options)], {
        execArgv: childFlags(),
        env: childEnvironment(this.#options.secrets),
        serialization: 'advanced',
        stdio: ['ignore', 'inherit', 'pipe', 'ipc', 'pipe'],
      });
      if (child.pid !== undefined) return child;
      child.once('error', (error) => this.#onRefused(error));
    } catch (error) {
      setImmediate(() => this.#onRefused(error as Error));
    }
    return null;
  }

  #onRefused({ code = 'unknown' }: NodeJS.ErrnoException): void {
    const why = REFUSALS[code];
    this.#lastEnding = `the system could not start its process (${code}${why === undefined ? '' : `: ${why}`})`;
    this.#onExit(null, this.#lastEnding);
  }

  #onReady(): void {
    this.#isReady = true;
    this.#wasEverReady = true;
    this.#ready.resolve();
    this.#stableTimer = setTimeout(() => (this.#restartDelayMs = FIRST_RESTART_DELAY_MS), STABLE_AFTER_MS).unref();
  }

  /** Reason why the first process did not start, in one line. */
  #refusal(fatal: HostFailure | null, ending: string, tail: string): string {
    const { name, file } = this.#options;
    const lastOutput = tail === '' ? '' : `. Its last output: ${tail.replaceAll(/\s*\n\s*/g, ' | ')}`;
    // If Node cannot start a thread, the error code is its message.
    const remedy = fatal === null ? undefined : (REFUSALS[fatal.code] ?? REFUSALS[fatal.message]);
    const reason =
      fatal === null ? `${ending}${lastOutput}` : remedy === undefined ? fatal.message : `${fatal.message}: ${remedy}`;
    const place = file === undefined || reason.includes(file) ? '' : ` with ${file}`;
    return `the ${name} host cannot start${place}: ${reason}`;
  }

  /** @param ending reason without file names: clients read it */
  #onExit(fatal: HostFailure | null, ending: string): void {
    const { name, log, onLost } = this.#options;
    this.#child = null;
    if (this.#stableTimer !== null) clearTimeout(this.#stableTimer);
    if (this.#isReady) this.#ready = Promise.withResolvers<void>();
    // Avoids an unhandled rejection: callers that wait get it through their own await.
    this.#ready.promise.catch(() => undefined);
    this.#isReady = false;
    onLost(ending);
    const reason = fatal?.message ?? ending;
    if (this.#isClosing) {
      // Rejects callers that still wait for its start or restart.
      this.#ready.reject(new ServerError('server.host_unavailable', `the ${name} host was closed`));
      return;
    }
    const tail = this.#stderrTail.trim();
    if (!this.#wasEverReady) {
      this.#isClosing = true;
      if (fatal !== null && tail !== '') log(`the ${name} host wrote: ${tail}`);
      this.#ready.reject(new ServerError('server.host_failed_to_start', this.#refusal(fatal, ending, tail)));
      return;
    }
    log(`the ${name} host stopped: ${reason}${tail === '' ? '' : `\n${tail}`}`);
    this.#restartTimer = setTimeout(() => this.#spawn(), this.#restartDelayMs);
    this.#restartDelayMs = Math.min(this.#restartDelayMs * 2, MAX_RESTART_DELAY_MS);
  }
}
