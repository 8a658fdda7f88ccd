/**
 * Compares chat templates with Python: the 142 templates of two published packages, 68 conversations each, as clients send them.
 *
 *   npm run lab -- templates               renders all of them, and many again over HTTP; a minute or two
 *   npm run lab -- templates --list     prints every difference, not only the first of each template
 *   npm run lab -- templates --make     makes the digests again with jinja2 and transformers
 *
 * The packages are fetched by pip. The texts rendered by Python are here as digests only: no text of a template is part of this repository.
 */
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import {
  createVirtualEnvironment,
  isVirtualEnvironmentCurrent,
  run,
  virtualEnvironment,
} from '../../scripts/lib/virtual-environment.mjs';
import { compareInProcess } from './in-process.ts';
import { compareOverHttp } from './over-http.ts';
import { readPairs } from './pairs.ts';
import { compareTraining } from './training.ts';
import { countTurns } from './turns.ts';

const SUITE = import.meta.dirname;
const CACHE = resolve(import.meta.dirname, '../../.cache/templates');
const PACKAGES = ['trl==1.16.0', 'llama-cpp-python==0.3.36'];
const TEMPLATES = join(CACHE, 'templates.json');
const DIGESTS = join(SUITE, 'fixtures/digests.json');
const CONVERSATIONS = join(SUITE, 'fixtures/conversations.json');

const { values: options } = parseArgs({ options: { make: { type: 'boolean' }, list: { type: 'boolean' } } });

const environment = virtualEnvironment(join(CACHE, 'venv'), join(SUITE, 'requirements.txt'));
const needsPython = options.make === true || !existsSync(TEMPLATES);
if (needsPython && !(await isVirtualEnvironmentCurrent(environment))) {
  console.log(`installing jinja2 and transformers into ${environment.directory}`);
  await createVirtualEnvironment(environment);
}
const script = join(SUITE, 'templates.py');
if (!existsSync(TEMPLATES)) await fetchTemplates();
if (options.make === true) {
  await run(environment.python, [script, 'digests', TEMPLATES, CONVERSATIONS, DIGESTS]);
  console.log(`wrote ${DIGESTS}`);
}

const pairs = await readPairs({ templates: TEMPLATES, conversations: CONVERSATIONS, digests: DIGESTS });
let numFaults = 0;
for (const [place, compare] of [
  ['in this process', compareInProcess],
  ['turns in rare places', countTurns],
  ['sampled and trained', compareTraining],
  ['over HTTP', compareOverHttp],
] as const) {
  const { counts, faults } = await compare(pairs);
  console.log(`${place}: ${counts}`);
  const shown = options.list === true ? faults : firstOfEach(faults);
  for (const { template, conversation, fault } of shown) console.log(`  ${template}, ${conversation}: ${fault}`);
  numFaults += faults.length;
}
process.exit(numFaults === 0 ? 0 : 1);

async function fetchTemplates(): Promise<void> {
  const archives = join(CACHE, 'archives');
  console.log(`fetching ${PACKAGES.join(' and ')}`);
  await rm(archives, { recursive: true, force: true });
  await mkdir(archives, { recursive: true });
  const source = ['--no-binary', 'llama-cpp-python', '--no-build-isolation'];
  const quiet = ['--quiet', '--disable-pip-version-check'];
  await run(environment.python, [
    '-m',
    'pip',
    'download',
    ...quiet,
    '--no-deps',
    ...source,
    '-d',
    archives,
    ...PACKAGES,
  ]);
  if ((await readdir(archives)).length !== PACKAGES.length)
    throw new Error(`${archives} has other files than expected`);
  await run(environment.python, [script, 'extract', archives, TEMPLATES]);
  const { length } = Object.keys(JSON.parse(await readFile(TEMPLATES, 'utf8')) as object);
  if (length === 0) throw new Error('The archives have no templates.');
  await rm(archives, { recursive: true });
}

function firstOfEach<Item extends { template: string }>(items: readonly Item[]): Item[] {
  return items.filter((item, index) => items.findIndex(({ template }) => template === item.template) === index);
}
