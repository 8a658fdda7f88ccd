/** `trainyard chat` in a real terminal: presses keys and reads the screen. */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';

import { programPath } from '../../scripts/program-path.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const MAIN = programPath('packages/cli/src/main.ts');
const TERMINAL = resolve(import.meta.dirname, '../support/terminal.py');
const CTRL_C = '\u0003';
const CTRL_D = '\u0004';
const WAIT = { timeout: 60_000 };
const hasTerminal = spawnSync('python3', ['-c', 'import pty']).status === 0;

/** A command in a terminal, and its output. */
class Terminal {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<number | null>;
  #screen = '';

  constructor(args: readonly string[], apiKey: string) {
    this.#child = spawn('python3', [TERMINAL, process.execPath, '--conditions=@trainyard/source', MAIN, ...args], {
      env: { ...process.env, TRAINYARD_API_KEY: apiKey, TERM: 'xterm', NO_COLOR: '1' },
    });
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => (this.#screen += text));
    this.ended = new Promise((done) => this.#child.once('close', (code) => done(code)));
  }

  press(keys: string): void {
    this.#child.stdin.write(keys);
  }

  /** Text without cursor movements. */
  get screen(): string {
    // eslint-disable-next-line no-control-regex
    return this.#screen.replaceAll(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replaceAll('\r', '');
  }

  /** True if it waits for a line. */
  get hasPrompt(): boolean {
    return /(?:^|\n)> $/.test(this.screen);
  }

  /** Waits for a text. @throws {Error} with the screen */
  async shows(text: string | RegExp): Promise<void> {
    const look = () => {
      const isThere = typeof text === 'string' ? this.screen.includes(text) : text.test(this.screen);
      if (!isThere) throw new Error(`the screen does not show ${String(text)}:\n${this.screen}`);
    };
    await vi.waitFor(look, WAIT);
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }
}

describe.skipIf(!hasTerminal)('trainyard chat in a terminal', { timeout: 120_000 }, () => {
  let service: ScriptedServiceProcess;
  let terminal: Terminal;
  beforeAll(async () => void (service = await scriptedService()));
  afterAll(() => service?.close());
  afterEach(() => terminal.end());

  const chat = (...args: string[]) =>
    (terminal = new Terminal(['chat', ...args, '--url', service.url], service.apiKey));

  it('answers line by line; an empty line sends nothing; Ctrl-D ends', async () => {
    chat('tiny/base');
    await terminal.shows(/tiny\/base; \/help for help, Ctrl-D ends\n> $/);
    const { generatedTokens } = await service.stats();
    terminal.press('\r');
    await terminal.shows(/> \n> $/);
    terminal.press('   \r');
    await terminal.shows(/> \n> {4}\n> $/);
    expect((await service.stats()).generatedTokens).toBe(generatedTokens);
    terminal.press('Hi there\r');
    await terminal.shows(/> Hi there\nHello to you\.\n> $/);
    terminal.press(CTRL_D);
    expect(await terminal.ended).toBe(0);
  });

  it('Ctrl-C during a reply stops it on the server too, and the conversation continues; at the prompt it ends', async () => {
    chat('tiny/base');
    await terminal.shows(/> $/);
    terminal.press('An essay\r');
    // An endless reply is in progress.
    await expect.poll(async () => (await service.stats()).numRequests, WAIT).toBe(1);
    await terminal.shows(/> An essay\n.{40}/s);
    expect(terminal.hasPrompt).toBe(false);
    terminal.press(CTRL_C);
    await service.settled();
    await expect.poll(() => terminal.hasPrompt, WAIT).toBe(true);
    terminal.press('Hi there\r');
    await terminal.shows(/> Hi there\nHello to you\.\n> $/);
    terminal.press(CTRL_C);
    expect(await terminal.ended).toBe(0);
  });

  it('a missing model is reported before the first question, and later ends nothing', async () => {
    chat('nobody');
    await terminal.shows(/"trainyard models list" lists\s+the models trained here/);
    expect(await terminal.ended).toBe(1);

    chat('tiny/base');
    await terminal.shows(/> $/);
    terminal.press('/model nobody\r');
    await terminal.shows(/nobody[^\n]*\n> $/);
    terminal.press('/set temperature 9\rHi there\r');
    await terminal.shows(/temperature[^\n]*2[^\n]*\n> $/);
    terminal.press('/unset temperature\rHi there\r');
    await terminal.shows(/Hello to you\.\n> $/);
    terminal.press('/exit\r');
    expect(await terminal.ended).toBe(0);
  });
});
