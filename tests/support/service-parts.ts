/** Processes of one service, each with its own data folder, with one database and shared blobs. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import type { OwnService } from '../../scripts/own-service.ts';
import { programPath } from '../../scripts/program-path.ts';
import { testModel } from './model.ts';
import { smallService } from './small-service.ts';

const MAIN = programPath('packages/cli/src/main.ts');
const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';

/** A process without HTTP for clients. */
export interface ServicePart {
  readonly pid: number;
  /** null: it is not an engine */
  readonly engineUrl: string | null;
  /** Address of its metrics and its health, without a path; null: it has none */
  readonly healthUrl: string | null;
  readonly dataDirectory: string;
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null>;
}

export class ServiceParts {
  readonly #folder = mkdtempSync(join(tmpdir(), 'trainyard-parts-'));
  readonly #environment: Record<string, string>;
  readonly #children = new Set<ChildProcess>();
  readonly #services = new Set<OwnService>();
  #numFolders = 0;

  constructor(environment: { database: string; secret: string; more?: Record<string, string> }) {
    const { database, secret, more = {} } = environment;
    this.#environment = { TRAINYARD_DATABASE: database, TRAINYARD_ENGINE_SECRET: secret, ...more };
  }

  /**
   * Starts an API process, without a model file.
   * @param options `dataDirectory` to start on an earlier one's data
   */
  async api(
    environment: Record<string, string> = {},
    { dataDirectory = this.#dataFolder() }: { dataDirectory?: string } = {},
  ): Promise<OwnService> {
    const own = { TRAINYARD_ROLE: 'api', TRAINYARD_MODEL: '/nowhere.gguf', ...this.#environment, ...environment };
    const service = await smallService({ dataDirectory, environment: own });
    this.#services.add(service);
    return service;
  }

  /**
   * @param options `dataDirectory` to start on an earlier one's data; `hasHealth`: it has a port for metrics
   * and health; `port` of an engine, default any free one; `environment` of this process only
   */
  async part(
    role: 'engine' | 'trainer' | 'engine,trainer',
    {
      dataDirectory = this.#dataFolder(),
      hasHealth = false,
      port = 0,
      environment = {},
    }: { dataDirectory?: string; hasHealth?: boolean; port?: number; environment?: Record<string, string> } = {},
  ): Promise<ServicePart> {
    const flags = ['--json', '--role', role, '--port', String(port), '--data-dir', dataDirectory];
    if (hasHealth) flags.push('--metrics-listen', '0');
    const child = spawn(process.execPath, ['--conditions=@trainyard/source', MAIN, 'serve', ...flags], {
      env: {
        ...process.env,
        TRAINYARD_MODEL: testModel().small,
        TRAINYARD_MODEL_ID: BASE,
        ...this.#environment,
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#children.add(child);
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-4000)));
    for await (const line of createInterface(child.stdout)) {
      const ready = JSON.parse(line) as { role: string; engine_url?: string | null; metrics_url?: string | null };
      if (ready.role !== role) throw new Error(`a process of role ${role} prints ${line}`);
      const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
        this.#children.delete(child);
        child.kill(signal);
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
        return child.exitCode;
      };
      const healthUrl = ready.metrics_url?.replace(/\/metrics$/, '') ?? null;
      return { pid: child.pid!, engineUrl: ready.engine_url ?? null, healthUrl, dataDirectory, end };
    }
    throw new Error(`the process of role ${role} ended before it was ready:\n${stderr}`);
  }

  async close(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL');
    await Promise.all([...this.#services].map((service) => service.stop()));
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
