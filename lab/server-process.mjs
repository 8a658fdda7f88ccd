import { spawn } from 'node:child_process';
import { openSync, closeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Interval of the readiness checks, ms. */
const CHECK_EVERY_MS = 500;

/**
 * A server in a process group of its own, which ends with this process unless this one is killed with SIGKILL.
 *
 * @typedef {object} ServerProcessOptions
 * @property {string} name in messages
 * @property {string} command
 * @property {readonly string[]} args
 * @property {Readonly<Record<string, string>>} [environment] added to that of this process
 * @property {string} logFile its output is appended there
 * @property {() => Promise<boolean>} isReady may throw while nothing listens
 * @property {number} readyWithinMs
 */
export class ServerProcess {
  /** @param {ServerProcessOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {import('node:child_process').ChildProcess | null} */
    this.child = null;
    this.killAtExit = () => this.kill();
  }

  /** Starts it, also again after {@link kill}. Resolves once it is ready. @throws {Error} naming the log file */
  async start() {
    const { name, command, args, environment, logFile, isReady, readyWithinMs } = this.options;
    const log = openSync(logFile, 'a');
    const child = spawn(command, args, {
      // A separate process group: its engine may be a child of the server.
      detached: true,
      stdio: ['ignore', log, log],
      env: { ...process.env, ...environment },
    });
    closeSync(log);
    this.child = child;
    process.once('exit', this.killAtExit);
    /** @type {Error | null} */
    let failure = null;
    child.once('error', (error) => (failure = error));
    const until = Date.now() + readyWithinMs;
    while (Date.now() < until) {
      if (failure !== null) throw failure;
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`${name} ended with ${child.exitCode ?? child.signalCode}. Check ${logFile}`);
      if (await isReady().catch(() => false)) return;
      await delay(CHECK_EVERY_MS);
    }
    this.kill();
    throw new Error(`${name} was not ready within ${readyWithinMs / 1000} s. Check ${logFile}`);
  }

  /** Kills the server and its descendants at once. */
  kill() {
    process.off('exit', this.killAtExit);
    this.#signal('SIGKILL');
  }

  /** Stops computing and answering until {@link resume}. */
  pause() {
    this.#signal('SIGSTOP');
  }

  resume() {
    this.#signal('SIGCONT');
  }

  /** @param {NodeJS.Signals} name */
  #signal(name) {
    if (this.child?.pid === undefined) return;
    try {
      process.kill(-this.child.pid, name);
    } catch {
      // It has ended by itself.
    }
  }
}
