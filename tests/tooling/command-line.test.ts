import { existsSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { REPOSITORY, runProgram } from './support/run-script.ts';

const STACK = /^ {4}at /m;
async function run(path: string, ...args: string[]) {
  return await runProgram(process.execPath, ['--conditions=@trainyard/source', join(REPOSITORY, path), ...args], {
    // As users start it, without the compile cache of the tests.
    env: { TRAINYARD_API_KEY: 'some-key', NODE_COMPILE_CACHE: '' },
  });
}

describe('as processes', () => {
  test('trainyard ends with the exit code of its command', async () => {
    const help = await run('packages/cli/src/main.ts', 'doctor', '--help');
    expect(help.output).toMatch(/^usage: trainyard doctor /);
    expect(help.exitCode).toBe(0);
    const unknown = await run('packages/cli/src/main.ts', 'fly');
    expect(unknown.output).toMatch(/^trainyard: unknown command 'fly'/);
    expect(unknown.exitCode).toBe(2);
  });

  test.runIf(existsSync('/dev/full'))('a command that writes to a full disk reports it', async () => {
    const main = join(REPOSITORY, 'packages/cli/src/main.ts');
    const line = '"$0" --conditions=@trainyard/source "$1" completion bash > /dev/full';
    const { exitCode, output } = await runProgram('bash', ['-c', line, process.execPath, main]);
    expect(output).toMatch(/^trainyard: cannot write the output: ENOSPC: .*\n$/);
    expect(exitCode).toBe(1);
  });

  test('compiled code is cached next to the sources, and nowhere else', async () => {
    const folder = join(REPOSITORY, '.cache/compiled');
    rmSync(folder, { recursive: true, force: true });
    await run('packages/cli/src/main.ts', '--version');
    const [version = ''] = readdirSync(folder);
    expect(version).toMatch(/^v24\./);
    expect(readdirSync(join(folder, version)).length).toBeGreaterThan(20);
  });

  test('the demo has a help and refuses unknown arguments', async () => {
    const help = await run('examples/demo/main.ts', '--help');
    expect(help.output).toMatch(/^usage: npm run demo -- /);
    expect(help.exitCode).toBe(0);
    const wrong = await run('examples/demo/main.ts', '--nonsense');
    expect(wrong.output).toContain("trainyard: unknown option '--nonsense'");
    expect(wrong.output).not.toMatch(STACK);
    expect(wrong.exitCode).toBe(2);
  });

  test('the demo reports in one line that nothing listens', async () => {
    const server = createServer();
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    await new Promise((done) => server.close(done));
    const { exitCode, output } = await run('examples/demo/main.ts', '--url', url);
    expect(output).toBe(`trainyard: ${url}: nothing listens there; "npm start" starts a service\n`);
    expect(exitCode).toBe(3);
  });
});
