/** `npx trainyard` in a clone, and the command of the tarball in its own folder. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { defaultModelPath } from '../../scripts/own-service.ts';
import { runProgram } from '../tooling/support/run-script.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const VERSION = '0.1.0';

it('npx finds the command in a clone', { timeout: 240_000 }, async () => {
  // Offline: no registry is asked for the name `trainyard`.
  const env = { npm_config_offline: 'true', npm_config_yes: 'true' };
  const { exitCode, output } = await runProgram('npx', ['trainyard', '--version'], { env, cwd: ROOT });
  expect(output.trim().split('\n').at(-1)).toBe(VERSION);
  expect(exitCode).toBe(0);
});

describe('the tarball', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-packed-'));
  const command = join(scratch, 'node_modules/@trainyard/cli/packages/cli/bin/trainyard.mjs');
  const env = { TRAINYARD_DATA_DIR: join(scratch, 'data'), TRAINYARD_API_KEY: 'some-key' };
  beforeAll(async () => {
    const packed = await runProgram(process.execPath, ['scripts/pack-cli.mjs', '--out', scratch]);
    if (packed.exitCode !== 0) throw new Error(packed.output);
    // In npm's layout, with the already installed dependencies.
    mkdirSync(join(scratch, 'unpacked'));
    execFileSync('tar', ['xzf', join(scratch, `trainyard-cli-${VERSION}.tgz`), '-C', join(scratch, 'unpacked')]);
    mkdirSync(join(scratch, 'node_modules/@trainyard'), { recursive: true });
    renameSync(join(scratch, 'unpacked/package'), join(scratch, 'node_modules/@trainyard/cli'));
    for (const name of readdirSync(join(ROOT, 'node_modules')))
      if (!['trainyard', '@trainyard', '.bin'].includes(name))
        symlinkSync(join(ROOT, 'node_modules', name), join(scratch, 'node_modules', name));
  }, 240_000);
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  it('has every module that its modules import, and no TypeScript', { timeout: 240_000 }, async () => {
    const files = readdirSync(join(scratch, 'node_modules/@trainyard/cli'), { recursive: true, encoding: 'utf8' });
    expect(files.filter((file) => /\.(ts|test\.js)$/.test(file))).toEqual([]);
    expect(files).toContain('docs/guide/learnt.png');
    expect(
      files.filter((file) => file.startsWith('examples/') && /\.\w+$/.test(file) && !/\.(md|svg|png)$/.test(file)),
    ).toEqual([]);
    const mains = files.filter((file) => /packages\/[a-z]+\/src\/index\.js$|-host\.js$/.test(file));
    expect(mains.length).toBeGreaterThanOrEqual(12);
    for (const main of mains.filter((file) => file.endsWith('index.js'))) {
      const load = `await import(${JSON.stringify(join(scratch, 'node_modules/@trainyard/cli', main))})`;
      const { exitCode, output } = await runProgram(process.execPath, ['--input-type=module', '-e', load]);
      expect({ main, exitCode, output }).toEqual({ main, exitCode: 0, output: '' });
    }
  });

  it('runs its command', { timeout: 240_000 }, async () => {
    expect(await runProgram(process.execPath, [command, '--version'], { env })).toMatchObject({
      output: `${VERSION}\n`,
    });
    const help = await runProgram(process.execPath, [command, 'serve', '--help'], { env });
    expect(help.output).toMatch(/^usage: trainyard serve /);
    // npm scripts belong to the repository.
    const advised = await runProgram(
      process.execPath,
      [command, 'doctor', '--url', 'http://127.0.0.1:2', '--precision', 'bf16', '--onednn', join(scratch, 'none')],
      { env },
    );
    expect(advised.output).toContain(': set TRAINYARD_ONEDNN to the libdnnl.so.3 that "pip install onednn-');
    expect(advised.output).toContain('start it with "trainyard serve"');
    const refused = await runProgram(
      process.execPath,
      [command, 'serve', '--port', '0', '--precision', 'bf16', '--onednn', join(scratch, 'none')],
      { env },
    );
    expect(refused).toMatchObject({
      exitCode: 2,
      output: expect.stringContaining('set TRAINYARD_ONEDNN to') as string,
    });
    expect(advised.output + refused.output + help.output).not.toMatch(/npm (?:start|run)/);
    const wrong = await runProgram(process.execPath, [command, 'fly'], { env });
    expect(wrong.exitCode).toBe(2);
  });
});

describe('installed from its tarball in an empty folder', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-installed-'));
  const app = join(scratch, 'app');
  const bin = join(app, 'node_modules/@trainyard/cli/packages/cli/bin/trainyard.mjs');
  beforeAll(async () => {
    mkdirSync(app);
    const packed = await runProgram(process.execPath, [join(ROOT, 'scripts/pack-cli.mjs'), '--out', scratch]);
    if (packed.exitCode !== 0) throw new Error(packed.output);
    // As in the README; the registry is only used for packages missing in npm's cache.
    const options = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
    const installed = await runProgram('npm', ['install', ...options, `../trainyard-cli-${VERSION}.tgz`], { cwd: app });
    if (installed.exitCode !== 0 || installed.output.includes('EBADENGINE')) throw new Error(installed.output);
  }, 600_000);
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  it('fetches the required Node.js under an older one, once', { timeout: 600_000 }, async () => {
    const older = 'Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.19.0"}})';
    const run = () =>
      runProgram(process.execPath, ['--import', `data:text/javascript,${older}`, bin, '--version'], { cwd: app });
    const first = await run();
    expect(first.exitCode).toBe(0);
    expect(first.output.split('\n').slice(0, 2)).toEqual([
      'trainyard: removing libraries of other platforms, once',
      'trainyard: fetching Node.js 24 for this platform, once (120 MB)',
    ]);
    const onnx = join(app, 'node_modules/onnxruntime-node/bin');
    for (const abi of readdirSync(onnx)) expect(readdirSync(join(onnx, abi))).toEqual([process.platform]);
    expect(await run()).toMatchObject({ exitCode: 0, output: `${VERSION}\n` });
  });

  it('serves the model, answers, and ends at SIGTERM', { timeout: 600_000 }, async () => {
    const apiKey = 'the-key-of-the-test';
    const child = spawn(process.execPath, [bin, 'serve', '--port', '0'], {
      cwd: app,
      env: {
        ...process.env,
        TRAINYARD_DATA_DIR: join(scratch, 'data'),
        TRAINYARD_MODEL: defaultModelPath(),
        TRAINYARD_API_KEY: apiKey,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    try {
      let output = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => (output += text));
      const url = () => /^URL\s+(\S+)$/m.exec(output)?.[1];
      await expect.poll(() => url() ?? child.exitCode, { timeout: 300_000 }).toMatch(/^http/);
      const response = await fetch(`${url()}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 }),
      });
      expect(await response.json()).toMatchObject({ usage: { completion_tokens: expect.any(Number) as number } });
      await expectPagesWithoutScripts(new URL(url()!).origin);
      await expectGuides(new URL(url()!).origin);
    } finally {
      const ended = new Promise((done) => child.once('exit', done));
      child.kill('SIGTERM');
      await ended;
    }
    expect(child.exitCode).toBe(0);
  });
});

/** Documents, the page of the command line, pictures and the search are part of the package. */
async function expectGuides(origin: string): Promise<void> {
  const commands = await (await fetch(`${origin}/guides/reference/command-line`)).text();
  expect(commands).toContain('Usage: trainyard serve [options]');
  const picture = await fetch(`${origin}/guides/pictures/docs/guide/learnt.png`);
  expect([picture.status, picture.headers.get('content-type')]).toEqual([200, 'image/png']);
  const { hits } = (await (await fetch(`${origin}/guides/search.json?q=first+training+step`)).json()) as {
    hits: unknown[];
  };
  expect(hits.length).toBeGreaterThan(0);
}

/** The pages suggest no npm script, which the package lacks. */
async function expectPagesWithoutScripts(origin: string): Promise<void> {
  const page = await (await fetch(`${origin}/models`)).text();
  expect(page).toContain('<meta name="demo-command" content="" />');
  const assets = readdirSync(join(ROOT, 'packages/dashboard/dist/assets'));
  const texts = await Promise.all(assets.map(async (name) => await (await fetch(`${origin}/assets/${name}`)).text()));
  expect(assets.length).toBeGreaterThan(0);
  for (const text of [page, ...texts]) expect(text).not.toMatch(/npm (?:start|run)/);
}
