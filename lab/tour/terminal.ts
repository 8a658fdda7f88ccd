import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Variables that a user's shell does not have: of npm scripts, of this service, and of continuous
 * integration.
 */
const NOT_OF_A_PERSON =
  /^(npm_(?!config_(registry|cache|userconfig|proxy|https_proxy|cafile)$)|TRAINYARD_|INIT_CWD$|NODE$|NODE_OPTIONS$|CI$)/;

/** One command in a folder, as a user starts it in a terminal. */
export class Terminal {
  readonly #child: ChildProcess;
  readonly #ended: Promise<number | null>;
  #output = '';

  private constructor(command: string, folder: string, environment: Readonly<Record<string, string>>) {
    this.#child = spawn('sh', ['-c', command], {
      cwd: folder,
      env: { ...shellEnvironment(), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A separate process group: npm, its shell and the service get one Ctrl-C together.
      detached: true,
    });
    for (const stream of [this.#child.stdout!, this.#child.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => (this.#output += text));
    this.#ended = new Promise((done) => this.#child.once('close', (code) => done(code)));
  }

  static open(command: string, folder: string, environment: Readonly<Record<string, string>> = {}): Terminal {
    return new Terminal(command, folder, environment);
  }

  /**
   * Runs a command to its end.
   * @returns its output, both streams
   * @throws {Error} with the output if it fails
   */
  static async run(
    command: string,
    folder: string,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const terminal = new Terminal(command, folder, environment);
    return await terminal.end();
  }

  /** All output so far, both streams. */
  get output(): string {
    return this.#output;
  }

  /** Waits for a line. @returns the first group of the pattern @throws {Error} if the command ends before it */
  async shows(pattern: RegExp): Promise<string> {
    let hasEnded = false;
    void this.#ended.then(() => (hasEnded = true));
    for (;;) {
      const found = pattern.exec(this.#output);
      if (found !== null) return found[1] ?? found[0];
      if (hasEnded) throw new Error(`the command ended without a line like ${String(pattern)}:\n${this.#output}`);
      await sleep(50);
    }
  }

  /** Waits for its end. @returns its output @throws {Error} with the output if it fails */
  async end(): Promise<string> {
    const code = await this.#ended;
    if (code !== 0) throw new Error(`the command ended with ${code}:\n${this.#output}`);
    return this.#output;
  }

  /** Sends Ctrl-C, and waits. */
  async interrupt(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) process.kill(-this.#child.pid!, 'SIGINT');
    await this.#ended;
  }
}

function shellEnvironment(): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(([name]) => !NOT_OF_A_PERSON.test(name));
  const path = (process.env['PATH'] ?? '').split(':').filter((folder) => !folder.includes('node_modules'));
  return { ...Object.fromEntries(entries), PATH: path.join(':') };
}
