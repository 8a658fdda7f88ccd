import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

export const REPOSITORY = resolve(import.meta.dirname, '../../..');

export interface ScriptResult {
  exitCode: number | null;
  /** stdout and stderr in the order of arrival */
  output: string;
  /** only stdout: without the stderr output of child processes */
  stdout: string;
  durationMs: number;
}

/** Runs a program to its end, by default in the repository. */
export async function runProgram(
  command: string,
  args: readonly string[],
  options: { env?: Record<string, string>; cwd?: string } = {},
): Promise<ScriptResult> {
  const startedMs = performance.now();
  const child = spawn(command, args, {
    cwd: options.cwd ?? REPOSITORY,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  const exitCode = await new Promise<number | null>((settle, fail) => {
    child.on('error', fail);
    child.on('close', settle);
  });
  return { exitCode, output, stdout, durationMs: performance.now() - startedMs };
}

/** Runs one of the repository's scripts with the Node.js of the tests. */
export async function runScript(
  path: string,
  args: readonly string[],
  options: { env?: Record<string, string> } = {},
): Promise<ScriptResult> {
  return await runProgram(process.execPath, [resolve(REPOSITORY, path), ...args], options);
}
