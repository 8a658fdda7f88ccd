/** Every block of every page that says it can be run is run, in the order of its page, against a service. The README has a test of its own. */
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { siteContents } from '../../scripts/docs/contents.ts';
import { hasPythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import type { OwnService } from '../../scripts/own-service.ts';
import { installedArtReleases } from '../support/art-client.ts';
import { blocksOf, type DocBlock, isRun } from '../support/doc-blocks.ts';
import { runBlock } from '../support/run-block.ts';
import { smallService } from '../support/small-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const README_ADDRESS = '127.0.0.1:8420';
const TIMEOUT_MS = 600_000;

const PAGES = siteContents(ROOT)
  .flatMap(({ pages }) => pages)
  .flatMap(({ file }) => (file === undefined || file === 'README.md' ? [] : [file]))
  .map((page) => ({ page, blocks: blocksOf(page).filter(isRun) }))
  .filter(({ blocks }) => blocks.length > 0);

const hasClients = await hasPythonEnvironment(ROOT, 'clients');
const hasArt = (await installedArtReleases()).includes('art-newest');

describe('blocks of the pages', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-blocks-'));
  let service: OwnService;
  beforeAll(async () => void (service = await smallService()), TIMEOUT_MS);
  afterAll(async () => {
    await service?.close();
    rmSync(scratch, { recursive: true, force: true });
  });

  const canRun = ({ language, mark }: DocBlock) => language !== 'python' || (mark === 'art' ? hasArt : hasClients);

  it.each(PAGES)(
    '$page',
    async ({ page, blocks }) => {
      // As in the folder of the clone: packages are found, and the command line is.
      const cwd = mkdtempSync(join(scratch, `${basename(page, '.md')}-`));
      symlinkSync(join(ROOT, 'node_modules'), join(cwd, 'node_modules'));
      const env = {
        TRAINYARD_API_KEY: service.apiKey,
        URL: service.url,
        // Where commands find it.
        TRAINYARD_DATA_DIR: service.dataDirectory,
        AUTH: `Authorization: Bearer ${service.apiKey}`,
        HF_HUB_OFFLINE: '1',
        PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env['PATH']}`,
      };
      for (const block of blocks.filter(canRun)) {
        const edit = (text: string) => text.replaceAll(README_ADDRESS, new URL(service.url).host);
        const { code, output, errors } = await runBlock(block, { cwd, env, edit });
        const said = code === 0 ? '' : errors + output;
        expect({ at: `${page}:${block.line}`, code, said }).toEqual({ at: `${page}:${block.line}`, code: 0, said: '' });
        // What the service refuses is an answer to curl.
        expect({ at: `${page}:${block.line}`, error: /\{"detail":.*/.exec(output)?.[0] }).toEqual({
          at: `${page}:${block.line}`,
          error: undefined,
        });
      }
    },
    TIMEOUT_MS,
  );

  it('what the jobs of these blocks measured is in the tables of docs/reference/training-api.md', async () => {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const names = new Set<string>();
    for await (const { id } of client.models.list())
      for (const { name } of (await client.models.metrics(id)).data)
        if (name.startsWith('train/')) names.add(name.slice('train/'.length));
    expect(names.size).toBeGreaterThan(30);
    const known = wordsOf(readFileSync(join(ROOT, 'docs/reference/training-api.md'), 'utf8'));
    expect([...names].filter((name) => !known.has(name))).toEqual([]);
  });
});

/** Names of a page in backquotes; one that begins with `_` takes the place of the end of the one before. */
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
