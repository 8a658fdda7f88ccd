import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

/** A child process that answers lines of JSON on its standard input with lines of JSON, and ends with that input. */
export class JsonLinesProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;
  readonly #exited: Promise<unknown>;

  /** Starts it. @param environment added to that of this process */
  constructor(command: string, args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
    this.#child = spawn(command, args, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, ...environment },
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.#exited = once(this.#child, 'exit');
    const killAtExit = (): void => void this.#child.kill('SIGKILL');
    process.once('exit', killAtExit);
    void this.#exited.then(() => process.off('exit', killAtExit));
  }

  /** Next line. @throws {Error} if it has ended */
  async answer(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error(`the process "${this.#child.spawnargs.slice(0, 2).join(' ')}" ended`);
    return JSON.parse(value) as unknown;
  }

  async ask(question: unknown): Promise<unknown> {
    this.#child.stdin.write(`${JSON.stringify(question)}\n`);
    return await this.answer();
  }

  async close(): Promise<void> {
    this.#child.stdin.end();
    await this.#exited;
  }
}
