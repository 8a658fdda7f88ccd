/**
 * Commands for pasting in the README equal those shown by the service, and run unchanged in an empty folder.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { connectSnippets } from '@trainyard/server';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { blocksOf } from '../support/doc-blocks.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';
import { REPOSITORY, runProgram } from './support/run-script.ts';

const BLOCKS = blocksOf('README.md');
/** An example with a long installation is on the page of its client. */
const PAGES = [...BLOCKS, ...blocksOf('docs/guide/from-art.md')];

test("the README and the page of ART have the service's snippets, byte for byte", () => {
  const shown = connectSnippets({
    baseUrl: 'http://127.0.0.1:8420/v1',
    modelId: 'HuggingFaceTB/SmolLM2-135M-Instruct',
  });
  for (const { shell } of shown) expect(PAGES.map(({ text }) => text)).toContain(shell);
});

test.each([
  ['README.md', 6_000],
  ['CONTRIBUTING.md', 7_000],
])('%s is short: at most %i bytes', (page, limit) => {
  expect(statSync(join(REPOSITORY, page)).size).toBeLessThanOrEqual(limit);
});

test('every block is a snippet of the service, or one of few known ones', () => {
  const known = [/^npm (start|run demo)\n$/, /^export TRAINYARD_API_KEY=/, /^curl -N /, /^npm install openai\n/];
  const others = [/^cat > task\.mjs /, /^git clone /];
  // Output of commands is in `text output` blocks, which the pages' own test compares.
  const blocks = BLOCKS.filter(({ language, mark }) => language !== '' && mark !== 'output');
  expect(blocks.every(({ language }) => language === 'sh')).toBe(true);
  expect(blocks.filter(({ text }) => ![...known, ...others].some((sign) => sign.test(text)))).toEqual([]);
});

test('every request of a snippet is bounded', () => {
  for (const { text } of BLOCKS.filter(({ text }) => /messages/.test(text) && !text.includes('"$'))) {
    expect(text, text).toMatch(/max_tokens/);
  }
});

describe('in an empty folder', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-readme-'));
  let service: ScriptedServiceProcess;
  beforeAll(async () => void (service = await scriptedService()));
  afterAll(async () => {
    await service?.close();
    rmSync(scratch, { recursive: true, force: true });
  });

  async function run(id: string) {
    const { shell } = connectSnippets({ baseUrl: service.url, modelId: service.model }).find((one) => one.id === id)!;
    const cwd = mkdtempSync(join(scratch, 'empty-'));
    const env = {
      TRAINYARD_API_KEY: service.apiKey,
      // Uses the registry only for packages missing in npm's cache.
      npm_config_prefer_offline: 'true',
    };
    const { exitCode, output } = await runProgram('bash', ['-e', '-c', shell], { env, cwd });
    expect({ exitCode, output: exitCode === 0 ? '' : output }).toEqual({ exitCode: 0, output: '' });
    return { output, cwd };
  }

  test('curl streams an answer to its end', async () => {
    const { output } = await run('curl');
    const events = output.split('\n').filter((line) => line.startsWith('data: {'));
    expect(events.length).toBeGreaterThan(2);
    expect(events.length).toBeLessThanOrEqual(64 + 2);
    expect(output).toContain('data: [DONE]');
  });

  test('openai for Node is installed and prints an answer', { timeout: 300_000 }, async () => {
    const { output, cwd } = await run('openai-node');
    expect(readdirSync(cwd)).toContain('hello.mjs');
    expect(output.trim().split('\n').at(-1)!.length).toBeGreaterThan(5);
  });
});
