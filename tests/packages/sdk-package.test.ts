/**
 * The SDK as users get it: the tarball in an empty project, with the oldest available Node.js, in TypeScript
 * and in a bundle for browsers.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { clientTools } from '../../scripts/lib/client-tools.mjs';
import { hasBrowser, openBrowser } from '../support/browser.ts';
import { packedSdk } from '../support/packed-sdk.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

let folder: string;
let service: ScriptedServiceProcess;
let tools: NodeJS.Require;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-sdk-'));
  tools = await clientTools(ROOT, (line) => console.log(line));
  const project = { name: 'empty', private: true, type: 'module' };
  await writeFile(join(folder, 'package.json'), JSON.stringify(project));
  await run('npm', ['install', '--no-audit', '--no-fund', '--offline', await packedSdk()], { cwd: folder });
  service = await scriptedService();
}, 600_000);
afterAll(async () => {
  await service.close();
  await rm(folder, { recursive: true, force: true });
});

/** The program that every environment runs with the package, and its expected result. */
const PROGRAM = `
import { Trainyard, TrainyardApiError } from '@trainyard/sdk';

export async function useIt(options) {
  const client = new Trainyard(options);
  const body = { model: 'tiny/base', messages: [{ role: 'user', content: 'Good day' }], max_tokens: 64 };
  const whole = await client.chat.completions.create(body);
  let streamed = '';
  const stream = await client.chat.completions.create({ ...body, stream: true });
  for await (const chunk of stream) streamed += chunk.choices[0]?.delta.content ?? '';
  const refused = await client.chat.completions.create({ ...body, temperature: -1 }).catch((error) => error);
  const stopped = await client.chat.completions.create(body, { signal: AbortSignal.abort(new Error('left')) }).catch((error) => error.message);
  const isOurs = refused instanceof TrainyardApiError;
  return { whole: whole.choices[0].message.content, streamed, isOurs, code: refused.code, stopped };
}
`;
const RESULT = {
  whole: 'Hello to you.',
  streamed: 'Hello to you.',
  isOurs: true,
  code: 'request.invalid',
  stopped: 'left',
};

test('the tarball has no other dependencies', async () => {
  const installed = (await readdir(join(folder, 'node_modules'))).filter((name) => !name.startsWith('.'));
  expect(installed).toEqual(['@trainyard']);
  expect((await readdir(join(folder, 'node_modules/@trainyard/sdk'))).toSorted()).toEqual([
    'LICENSE',
    'README.md',
    'THIRD-PARTY-LICENCES.txt',
    'index.d.ts',
    'index.js',
    'package.json',
    'rollouts.d.ts',
    'rollouts.js',
  ]);
  const text = await readFile(join(folder, 'node_modules/@trainyard/sdk/index.js'), 'utf8');
  expect(text).not.toMatch(/^import |require\(/m);
  const licences = await readFile(join(folder, 'node_modules/@trainyard/sdk/THIRD-PARTY-LICENCES.txt'), 'utf8');
  expect(licences).toMatch(/^eventsource-parser \d+\.\d+\.\d+\n\nMIT License\n\nCopyright/);
});

test('it samples on the oldest available Node.js, with base URL and key from the environment', async () => {
  const node = await oldestNode();
  console.log(`the SDK runs on ${node.version}`);
  await writeFile(join(folder, 'program.js'), PROGRAM);
  await writeFile(
    join(folder, 'main.js'),
    `import { useIt } from './program.js';\nconsole.log(JSON.stringify(await useIt()));\n`,
  );
  const environment = { TRAINYARD_BASE_URL: service.url, TRAINYARD_API_KEY: service.apiKey };
  const { stdout, stderr } = await run(node.path, ['main.js'], {
    cwd: folder,
    env: { ...process.env, ...environment },
  });
  expect({ stderr, result: JSON.parse(stdout) }).toEqual({ stderr: '', result: RESULT });
});

test('the program of its README runs unchanged, in a project without a module type', async () => {
  const readme = await readFile(join(folder, 'node_modules/@trainyard/sdk/README.md'), 'utf8');
  const [, program = ''] = /^```js\n(.*?)^```$/ms.exec(readme)!;
  const project = join(folder, 'plain');
  await mkdir(project);
  await writeFile(join(project, 'package.json'), '{}');
  const ours = program.replace('short-answers', 'tiny/base').replace('Name a colour.', 'Good day').replace('16', '64');
  await writeFile(join(project, 'program.mjs'), ours);
  const env = { ...process.env, TRAINYARD_BASE_URL: service.url, TRAINYARD_API_KEY: service.apiKey };
  const { stdout, stderr } = await run((await oldestNode()).path, ['program.mjs'], { cwd: project, env });
  expect({ stdout, stderr }).toEqual({ stdout: 'Hello to you.', stderr: '' });
});

test.each([
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
])('its types hold in a strict project (module %s, resolution %s)', async (module, moduleResolution) => {
  const program = [
    `import { Trainyard, type TrainingJobObject, type WireTrajectoryGroup } from '@trainyard/sdk';
import { gatherGroup } from '@trainyard/sdk/rollouts';`,
    `const client = new Trainyard({ apiKey: 'x' });`,
    `export const job: Promise<TrainingJobObject> = client.trainingJobs.create({ model_id: 'm', trajectory_groups: [], experimental_config: { learning_rate: 1e-4 } });`,
    `export const group: WireTrajectoryGroup = (await gatherGroup(client, { model: 'm', messages: [], n: 2 }, (c) => c.index)).group;`,
    `export const text: string | null = (await client.chat.completions.create({ model: 'm', messages: [] })).choices[0]!.message.content;`,
    `// @ts-expect-error a number is no learning rate's name`,
    `client.trainingJobs.create({ model_id: 'm', trajectory_groups: [], experimental_config: { learning_rate: 'fast' } });`,
    `// @ts-expect-error fields have names`,
    `client.chat.completions.create({ model: 'm', messages: [], temprature: 1 });`,
  ].join('\n');
  await writeFile(join(folder, 'typed.ts'), `${program}\n`);
  const lib = ['--lib', 'es2022,dom,dom.iterable,dom.asynciterable'];
  const options = ['--strict', '--noEmit', '--target', 'es2022', ...lib];
  const compiler = [
    tools.resolve('typescript/bin/tsc'),
    'typed.ts',
    '--module',
    module,
    '--moduleResolution',
    moduleResolution,
  ];
  const failed = await run(process.execPath, [...compiler, ...options], { cwd: folder }).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
  expect(failed).toBe('');
});

test('a bundle for browsers contains nothing of Node.js', async () => {
  await writeFile(join(folder, 'program.js'), PROGRAM);
  await tools('esbuild').build({
    absWorkingDir: folder,
    entryPoints: ['program.js'],
    outfile: 'bundle.js',
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: ['chrome115', 'firefox115', 'safari16.4'],
    logLevel: 'error',
  });
  expect(await readFile(join(folder, 'bundle.js'), 'utf8')).not.toMatch(/\bnode:|\brequire\(/);
});

test.skipIf(!hasBrowser())('the bundle works in a page of another origin of this machine', async () => {
  const page = `<!doctype html><title>SDK</title><link rel="icon" href="data:,"><script type="module">
    import { useIt } from '/bundle.js';
    window.result = useIt(${JSON.stringify({ baseUrl: service.url, apiKey: service.apiKey })});
  </script>`;
  const bundle = await readFile(join(folder, 'bundle.js'));
  const site = createServer((request, response) => {
    const isBundle = request.url === '/bundle.js';
    response.setHeader('content-type', isBundle ? 'text/javascript' : 'text/html').end(isBundle ? bundle : page);
  });
  await new Promise<void>((resolve) => void site.listen(0, '127.0.0.1', resolve));
  const browser = await openBrowser();
  try {
    const tab = await browser.newPage();
    const complaints: string[] = [];
    tab.on('pageerror', (error) => complaints.push(error.message));
    await tab.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
    await tab.waitForFunction('window.result');
    expect(await tab.evaluate('window.result')).toEqual(RESULT);
    expect(complaints).toEqual([]);
  } finally {
    await browser.close();
    site.close();
  }
});

/** Lowest version of Node.js on the path, at least 20: npm puts the project's own before the machine's. */
async function oldestNode(): Promise<{ path: string; version: string }> {
  const found = [{ path: process.execPath, version: process.version }];
  for (const directory of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(directory, 'node');
    const version = await run(path, ['--version']).then(
      ({ stdout }) => stdout.trim(),
      () => '', // none there
    );
    if (/^v\d/.test(version)) found.push({ path, version });
  }
  const major = ({ version }: { version: string }) => Number(version.slice(1).split('.')[0]);
  return found.filter((node) => major(node) >= 20).toSorted((a, b) => major(a) - major(b))[0]!;
}
