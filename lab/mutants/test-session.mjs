import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('test-session-process.mjs', import.meta.url));

/** A test run that exceeded its time, or ended with its process. */
export const DID_NOT_END = 'did not end';

/** Runs test files of one tree, one run after the other, in a separate process. */
export class TestSession {
  /** @type {import('node:child_process').ChildProcess | null} */
  #process = null;
  /** @type {Set<string>} */
  #changed = new Set();
  #root;

  /** @param {string} root */
  constructor(root) {
    this.#root = root;
  }

  /** Makes the next run reload the file. @param {string} path absolute */
  fileChanged(path) {
    this.#changed.add(path);
  }

  /**
   * @param {readonly string[]} tests absolute paths
   * @param {number} limitMs time after which the process and its children are killed
   * @returns {Promise<boolean | typeof DID_NOT_END>} true if all passed
   */
  async run(tests, limitMs) {
    const running = (this.#process ??= await this.#start());
    const reply = answerOf(running);
    running.send({ tests, changed: [...this.#changed] });
    this.#changed.clear();
    const timer = limitMs === Infinity ? undefined : setTimeout(() => this.kill(), limitMs);
    const answer = await reply;
    clearTimeout(timer);
    if (answer !== null) return /** @type {{ isPassed: boolean }} */ (answer).isPassed;
    this.#process = null;
    return DID_NOT_END;
  }

  /** Kills it with all its child processes. */
  kill() {
    const pid = this.#process?.pid;
    if (pid !== undefined && this.#process?.exitCode === null) process.kill(-pid, 'SIGKILL');
  }

  async #start() {
    const started = fork(PROGRAM, [this.#root], {
      cwd: this.#root,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      detached: true,
    });
    if ((await answerOf(started)) === null) throw new Error(`the tests of ${this.#root} cannot be run`);
    return started;
  }
}

/**
 * Next message; null if the process ends first. @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<unknown>}
 */
async function answerOf(child) {
  return await new Promise((settle) => {
    /** @param {unknown} message */
    const onMessage = (message) => {
      child.off('exit', onExit);
      settle(message);
    };
    const onExit = () => {
      child.off('message', onMessage);
      settle(null);
    };
    child.once('message', onMessage);
    child.once('exit', onExit);
  });
}
