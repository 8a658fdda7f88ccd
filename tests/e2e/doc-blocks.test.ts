/**
 * Runs every runnable block of every page with a service, in the order of its page, and compares its output
 * with the `text output` block after it. The README has its own test.
 */
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { siteContents } from '../../site/contents/contents.ts';
import { hasPythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { installedArtReleases } from '../support/art-client.ts';
import { blocksOf, type DocBlock, isOutput, isRun, missingLines } from '../support/doc-blocks.ts';
import { runBlock } from '../support/run-block.ts';
import { smallService } from '../support/small-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const README_ADDRESS = '127.0.0.1:8420';
const TIMEOUT_MS = 600_000;

const PAGES = siteContents(ROOT)
  .flatMap(({ pages }) => pages)
  .flatMap(({ file }) => (file === undefined ? [] : [file]))
  .map((page) => ({ page, blocks: runnableBlocks(page) }))
  .filter(({ blocks }) => blocks.length > 0)
  .map(({ page, blocks }) => ({ page, blocks, hasOutput: blocks.some(({ output }) => output !== '') }));

const hasClients = await hasPythonEnvironment(ROOT, 'clients');
const hasArt = (await installedArtReleases()).includes('art-newest');

/** Runnable blocks of a page, each with the text of the output block after it. */
function runnableBlocks(page: string): (DocBlock & { readonly output: string })[] {
  const blocks = blocksOf(page);
  return blocks.flatMap((block, index) => {
    const next = blocks[index + 1];
    return isRun(block) ? [{ ...block, output: next !== undefined && isOutput(next) ? next.text : '' }] : [];
  });
}

describe('blocks of the pages', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-blocks-'));
  let small: OwnService;
  let real: OwnService;
  beforeAll(async () => {
    small = await smallService();
    real = await ownService();
  }, TIMEOUT_MS);
  afterAll(async () => {
    await small?.close();
    await real?.close();
    rmSync(scratch, { recursive: true, force: true });
  });

  const canRun = ({ language, mark }: DocBlock) => language !== 'python' || (mark === 'art' ? hasArt : hasClients);

  it.each(PAGES)(
    '$page',
    async ({ page, blocks, hasOutput }) => {
      // Only the default model produces the text on the pages; the small one has a tenth of the cost.
      const service = hasOutput ? real : small;
      // As in the clone's folder: packages and the command line are found.
      const cwd = mkdtempSync(join(scratch, `${basename(page, '.md')}-`));
      symlinkSync(join(ROOT, 'node_modules'), join(cwd, 'node_modules'));
      const env = {
        TRAINYARD_API_KEY: service.apiKey,
        URL: service.url,
        // Folder that commands use to find it.
        TRAINYARD_DATA_DIR: service.dataDirectory,
        AUTH: `Authorization: Bearer ${service.apiKey}`,
        HF_HUB_OFFLINE: '1',
        PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env['PATH']}`,
      };
      for (const block of blocks.filter(canRun)) {
        const edit = (text: string) => text.replaceAll(README_ADDRESS, new URL(service.url).host);
        const { code, output, errors } = await runBlock(block, { cwd, env, edit });
        const failure = code === 0 ? '' : errors + output;
        expect({ at: `${page}:${block.line}`, code, output: failure }).toEqual({
          at: `${page}:${block.line}`,
          code: 0,
          output: '',
        });
        // For curl a refusal is an answer.
        expect({ at: `${page}:${block.line}`, error: /\{"detail":.*/.exec(output)?.[0] }).toEqual({
          at: `${page}:${block.line}`,
          error: undefined,
        });
        const missing = missingLines(block.output, output);
        expect({ at: `${page}:${block.line}`, missing, printed: missing.length === 0 ? '' : output }).toEqual({
          at: `${page}:${block.line}`,
          missing: [],
          printed: '',
        });
      }
    },
    TIMEOUT_MS,
  );

  it('the metrics of these jobs are in the tables of docs/reference/training-api.md', async () => {
    const names = new Set<string>();
    for (const service of [small, real]) {
      const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
      for await (const { id } of client.models.list())
        for (const { name } of (await client.models.metrics(id)).data)
          if (name.startsWith('train/')) names.add(name.slice('train/'.length));
    }
    expect(names.size).toBeGreaterThan(30);
    const page = readFileSync(join(ROOT, 'docs/reference/training-api.md'), 'utf8');
    const known = wordsOf(page);
    expect(page).toContain('`fresh/…` or `updated/…`');
    // The own metrics of rollouts are on the page about reading.
    expect(readFileSync(join(ROOT, 'docs/reference/read-api.md'), 'utf8')).toContain('`train/rollouts/…`');
    const ofSteps = [...names].filter((name) => !name.startsWith('rollouts/'));
    expect(ofSteps.filter((name) => !known.has(name.replace(/^(?:fresh|updated)\//, '')))).toEqual([]);
  });
});

/** Names of a page in backquotes; one that starts with `_` replaces the end of the previous one. */
function wordsOf(page: string): Set<string> {
  const words = new Set<string>();
  let stem = '';
  for (const [, word = ''] of page.matchAll(/`([a-z0-9_]+)(?:<reason>)?`/g)) {
    if (!word.startsWith('_')) stem = word;
    words.add(word);
    // `seconds_prepare`, `_forward`; `clip_fraction`, `_low`
    const parts = stem.split('_');
    for (let length = 1; length <= parts.length; length++) words.add(`${parts.slice(0, length).join('_')}${word}`);
  }
  return words;
}
