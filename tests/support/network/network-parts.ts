/** Processes of one service, each on its own machine, with PostgreSQL on another. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

import { Trainyard } from '@trainyard/sdk';

import { testModel } from '../model.ts';
import type { Machine } from './network.ts';

const MAIN = resolve(import.meta.dirname, '../../../packages/cli/src/main.ts');
export const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
export const API_KEY = 'the-key-of-all-processes-of-these-tests';
export const SECRET = 'a secret for these tests, which is long enough';

export type PartRole = 'api' | 'api,engine' | 'engine' | 'trainer';

export interface StartOptions {
  /** of this part only */
  readonly environment?: Readonly<Record<string, string>>;
  /** its port for a proxy on the same machine; default: any port for the others, unencrypted */
  readonly loopbackPort?: number | null;
}

export class NetworkPart {
  readonly machine: Machine;
  /** of an `api`, ends in `/v1`; empty for others */
  readonly url: string;
  readonly lines: string[];
  readonly #child: ChildProcess;

  constructor(options: { machine: Machine; url: string; lines: string[]; child: ChildProcess }) {
    this.machine = options.machine;
    this.url = options.url;
    this.lines = options.lines;
    this.#child = options.child;
  }

  get pid(): number {
    return this.#child.pid!;
  }

  get client(): Trainyard {
    return new Trainyard({ baseUrl: this.url, apiKey: API_KEY, maxRetries: 0 });
  }

  /** Sends a request with the key. */
  async ask(path: string, body?: object, headers: Record<string, string> = {}): Promise<Response> {
    return await fetch(`${this.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  says(words: string): boolean {
    return this.lines.some((line) => line.includes(words));
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill(signal);
      await once(this.#child, 'exit');
    }
    return this.#child.exitCode;
  }
}

export class NetworkParts {
  readonly #folder = mkdtempSync(join(tmpdir(), 'trainyard-networks-'));
  readonly #environment: Readonly<Record<string, string>>;
  readonly #parts = new Set<NetworkPart>();
  #numFolders = 0;

  /** @param environment of all parts */
  constructor(environment: Readonly<Record<string, string>>) {
    this.#environment = {
      TRAINYARD_DRAIN_GRACE_MS: '0',
      TRAINYARD_ENGINE_SECRET: SECRET,
      TRAINYARD_API_KEY: API_KEY,
      ...environment,
    };
  }

  /** Starts a process on a machine. An `api` has no model file. */
  async start(machine: Machine, role: PartRole, options: StartOptions = {}): Promise<NetworkPart> {
    const { environment = {}, loopbackPort = null } = options;
    const address =
      loopbackPort === null
        ? ['--port', '0', '--host', machine.address, '--allow-network']
        : ['--port', String(loopbackPort), '--host', '127.0.0.1'];
    const flags = ['--json', '--role', role, ...address];
    const words = [process.execPath, '--conditions=@trainyard/source', MAIN, 'serve', ...flags];
    const child = machine.spawn([...words, '--data-dir', this.#dataFolder()], {
      env: {
        ...process.env,
        TRAINYARD_MODEL: role === 'api' ? `${BASE}=/nowhere.gguf` : testModel().small,
        TRAINYARD_MODEL_ID: BASE,
        ...this.#environment,
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const lines: string[] = [];
    createInterface(child.stderr!).on('line', (line) => lines.push(line));
    for await (const line of createInterface(child.stdout!)) {
      const { url = '' } = JSON.parse(line) as { url?: string };
      const part = new NetworkPart({ machine, url, lines, child });
      this.#parts.add(part);
      return part;
    }
    throw new Error(`the process of role ${role} ended before it was ready: ${lines.join('\n')}`);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#parts].map((part) => part.end('SIGKILL')));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Its blobs are shared by all parts, as on a shared file system. */
  #dataFolder(): string {
    const [blobs, own] = [join(this.#folder, 'blobs'), join(this.#folder, `${this.#numFolders++}`)];
    mkdirSync(blobs, { recursive: true });
    mkdirSync(own);
    symlinkSync(blobs, join(own, 'blobs'));
    return own;
  }
}

/** Programs of PostgreSQL, from the suite's variable. */
export function postgresPrograms(): string {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, '`npm run lab -- networks` starts the server');
  return programs;
}
