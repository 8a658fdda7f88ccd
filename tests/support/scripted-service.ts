import { spawn } from 'node:child_process';
import { once } from 'node:events';

import { programPath } from '../../scripts/program-path.ts';

const MAIN = programPath('packages/server/src/testing/scripted-main.ts');

export interface ScriptedServiceProcess {
  /** ends in `/v1` */
  readonly url: string;
  readonly apiKey: string;
  readonly model: string;
  /** Requests in flight, and tokens generated so far. */
  stats(): Promise<{ numRequests: number; generatedTokens: number }>;
  /** Waits until no request is in flight. @returns tokens generated so far */
  settled(): Promise<number>;
  /** Word printed after that name before it listened; null if absent. */
  printed(name: string): string | null;
  close(): Promise<void>;
}

/**
 * The real HTTP server and engine in a separate process, with a model whose replies depend on the prompt: it
 * calls tools, reasons and writes JSON on request. See `packages/server/src/testing/scripted-main.ts` for the
 * replies.
 * @param args of `scripted-main.ts`
 * @throws if it ends before it listens, with its output
 */
export async function scriptedService(args: readonly string[] = []): Promise<ScriptedServiceProcess> {
  const child = spawn(process.execPath, ['--conditions=@trainyard/source', MAIN, ...args], { stdio: 'pipe' });
  let output = '';
  const ready = Promise.withResolvers<{ url: string; apiKey: string }>();
  const collect = (text: string) => {
    output += text;
    const [, url, apiKey] = /^URL (\S+)\nKEY (\S+)$/m.exec(output) ?? [];
    if (url !== undefined && apiKey !== undefined) ready.resolve({ url, apiKey });
  };
  child.stdout.setEncoding('utf8').on('data', collect);
  child.stderr.setEncoding('utf8').on('data', collect);
  const exited = once(child, 'exit');
  void exited.then(() => ready.reject(new Error(`the scripted service ended before it listened:\n${output}`)));

  const { url, apiKey } = await ready.promise;
  const stats = async () =>
    (await (await fetch(new URL('/stats', url))).json()) as { numRequests: number; generatedTokens: number };
  return {
    url,
    apiKey,
    model: 'tiny/base',
    stats,
    settled: async () => {
      for (;;) {
        const { numRequests, generatedTokens } = await stats();
        if (numRequests === 0) return generatedTokens;
        await new Promise((settle) => setTimeout(settle, 10));
      }
    },
    printed: (name) => new RegExp(`^${name} (\\S+)$`, 'm').exec(output)?.[1] ?? null,
    close: async () => {
      // It ends with its standard input.
      child.stdin.end();
      await exited;
    },
  };
}
