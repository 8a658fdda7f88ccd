import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { blocksOf } from './doc-blocks.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const READY = /^(?:URL|Engine) +(\S+)|^Trainyard's trainer is ready/m;

/** A command of a page, unchanged, without its comment. */
export interface GuideCommand {
  readonly at: string;
  readonly text: string;
  /** Lines of its block that export variables. */
  readonly exports: readonly string[];
  /** Tests of blocks run it: {@link isRun}. */
  readonly mark: string;
}

/** Every command of the `sh` blocks of a page. */
export function commandsOf(page: string): GuideCommand[] {
  return blocksOf(page)
    .filter(({ language }) => language === 'sh')
    .flatMap(({ text, line, mark }) => {
      const lines = text
        .replaceAll(/\\\n\s*/g, '')
        .split('\n')
        .map((one) => one.replace(/(^|\s)#.*$/, '').trim())
        .filter((one) => one !== '');
      const isExport = (one: string) => one.startsWith('export ') || one.startsWith('KEY=');
      const exports = lines.filter(isExport);
      return lines.map((one) => ({ at: `${page}:${line}`, text: one, exports: isExport(one) ? [] : exports, mark }));
    });
}

/** A process started by a command of a page. */
export class GuideProcess {
  /** Address in its output, without a path; empty for a trainer. */
  origin = '';
  output = '';
  readonly #child: ChildProcess;

  /** Runs a command in bash, in a separate process group, because it has child processes. */
  constructor(script: string, options: { cwd: string; env: Record<string, string> }) {
    this.#child = spawn('bash', ['-e', '-o', 'pipefail', '-c', script], {
      cwd: options.cwd,
      env: { ...process.env, PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env['PATH']}`, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    for (const stream of [this.#child.stdout!, this.#child.stderr!])
      stream.setEncoding('utf8').on('data', (part: string) => (this.output += part));
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** @throws if it ends before it is ready, with its output */
  async ready(): Promise<this> {
    for (;;) {
      const found = READY.exec(this.output);
      if (found !== null) {
        this.origin = found[1] === undefined ? '' : new URL(found[1]).origin;
        return this;
      }
      if (this.hasEnded) throw new Error(`the command ended before it was ready:\n${this.output}`);
      await delay(50);
    }
  }

  /** @returns its exit code */
  async ended(): Promise<number | null> {
    if (!this.hasEnded) await once(this.#child, 'close');
    return this.#child.exitCode;
  }

  /** SIGTERM to the command, as a service manager sends it; SIGKILL to all of its processes. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> {
    if (!this.hasEnded) process.kill(signal === 'SIGKILL' ? -this.#child.pid! : this.#child.pid!, signal);
    return await this.ended();
  }
}
