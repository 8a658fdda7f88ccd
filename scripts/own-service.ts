import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { programPath } from './program-path.ts';

const ROOT = resolve(import.meta.dirname, '..');

export interface OwnService {
  /** ends in `/v1` */
  readonly url: string;
  readonly apiKey: string;
  readonly dataDirectory: string;
  /** process id of the service itself; its hosts are its children */
  readonly pid: number;
  /** all its output so far, both streams */
  output(): string;
  /** SIGTERM, then waits for the exit; keeps the data folder. @returns the exit code */
  stop(): Promise<number | null>;
  /** Stops it and removes the data folder. */
  close(): Promise<void>;
}

/**
 * Starts a service for a demo, a benchmark or a test: with a free port, a temporary data folder, and the
 * model of `npm start`.
 *
 * @param options `dataDirectory` to start on an earlier one's data; `environment` overrides settings;
 * `program` (with its arguments, below this
 *   repository) is started instead of `trainyard serve`; `isFromSource`: never from a bundle
 * @throws if it ends before it is ready, with its output
 */
export async function ownService(
  options: {
    dataDirectory?: string;
    environment?: Record<string, string>;
    program?: readonly [string, ...string[]];
    isFromSource?: boolean;
  } = {},
): Promise<OwnService> {
  const dataDirectory = options.dataDirectory ?? mkdtempSync(join(tmpdir(), 'trainyard-'));
  const apiKey = options.environment?.['TRAINYARD_API_KEY'] ?? randomBytes(24).toString('base64url');
  const [program, ...args] = options.program ?? ['packages/cli/src/main.ts', 'serve'];
  const path = options.isFromSource === true ? join(ROOT, program) : programPath(program);
  const child = spawn(process.execPath, ['--conditions=@trainyard/source', path, ...args], {
    env: {
      ...process.env,
      TRAINYARD_DATA_DIR: dataDirectory,
      TRAINYARD_API_KEY: apiKey,
      TRAINYARD_PORT: '0',
      TRAINYARD_HOST: '127.0.0.1',
      // There is no load balancer.
      TRAINYARD_DRAIN_GRACE_MS: '0',
      TRAINYARD_MODEL: defaultModelPath(),
      TRAINYARD_MODEL_ID: 'HuggingFaceTB/SmolLM2-135M-Instruct',
      ...options.environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // An orderly end of this process also ends the service.
  const killAtExit = () => child.kill('SIGTERM');
  process.once('exit', killAtExit);
  child.once('exit', () => process.off('exit', killAtExit));
  const exited = new Promise<number | null>((done) => child.once('exit', (code) => done(code)));
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    return await exited;
  };
  const close = async () => {
    await stop();
    rmSync(dataDirectory, { recursive: true, force: true });
  };
  let output = '';
  const ready = Promise.withResolvers<string>();
  const collect = (text: string) => {
    output += text;
    const match = /^URL\s+(\S+)$/m.exec(output);
    if (match?.[1] !== undefined) ready.resolve(match[1]);
  };
  child.stdout.setEncoding('utf8').on('data', collect);
  child.stderr.setEncoding('utf8').on('data', collect);
  void exited.then((code) =>
    ready.reject(new Error(`the service ended with exit code ${code} before it was ready:\n${output}`)),
  );
  try {
    const url = await ready.promise;
    return { url, apiKey, dataDirectory, pid: child.pid!, output: () => output, stop, close };
  } catch (error) {
    if (options.dataDirectory === undefined) rmSync(dataDirectory, { recursive: true, force: true });
    throw error;
  }
}

/** File of the bootstrap, or of TRAINYARD_MODEL. */
export function defaultModelPath(): string {
  const fetched = resolve(
    process.env['TRAINYARD_DATA_DIR'] ?? join(ROOT, '.trainyard'),
    'models/SmolLM2-135M-Instruct.Q4_1.gguf',
  );
  const path = process.env['TRAINYARD_MODEL'] ?? fetched;
  if (!existsSync(path)) throw new Error(`The model file ${path} is missing. Run "node scripts/bootstrap.mjs"`);
  return path;
}
