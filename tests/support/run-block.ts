import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import type { DocBlock } from './doc-blocks.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** The end of a program: its exit code, and both of its streams. */
export interface BlockRun {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

/**
 * Runs a block.
 * @param surroundings `cwd`: folder, shared by the blocks of a page; `env` adds to that of this process;
 * `edit` changes the text before it runs
 */
export async function runBlock(
  { language, mark, text, line }: Pick<DocBlock, 'language' | 'mark' | 'text' | 'line'>,
  surroundings: { cwd: string; env: Record<string, string>; edit?: (text: string) => string },
): Promise<BlockRun> {
  const { cwd, env, edit = (same) => same } = surroundings;
  const edited = edit(text);
  if (language === 'sh') return await runProgram('bash', ['-e', '-o', 'pipefail', '-c', edited], { cwd, env });
  const file = join(cwd, `block-${line}.${language === 'ts' ? 'ts' : 'py'}`);
  writeFileSync(file, edited);
  if (language === 'ts')
    return await runProgram(process.execPath, ['--conditions=@trainyard/source', file], { cwd, env });
  const { python } = pythonEnvironment(ROOT, mark === 'art' ? 'art-newest' : 'clients');
  return await runProgram(python, [file], { cwd, env: { ...env, LITELLM_LOCAL_MODEL_COST_MAP: 'True' } });
}

async function runProgram(
  program: string,
  args: readonly string[],
  { cwd, env }: { cwd: string; env: Record<string, string> },
): Promise<BlockRun> {
  const child = spawn(program, args, {
    cwd,
    env: {
      ...process.env,
      // Uses the registry only for packages missing in npm's cache.
      npm_config_prefer_offline: 'true',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output += part));
  child.stderr.setEncoding('utf8').on('data', (part: string) => (errors += part));
  const code = await new Promise<number | null>((done) => child.once('close', done));
  return { code, output, errors };
}
