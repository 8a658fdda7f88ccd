import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

import { withFileLock } from '../../../scripts/lib/file-lock.mjs';
import { PEERS_FOLDER, ROOT } from './model-files.ts';
import type { Log } from './peer.ts';

const TOOLS = { npm: 'npm', git: 'git', cmake: 'CMake', 'c++': 'a C++ compiler' } as const;
/** Its page for browsers is fetched from a hub, and its tests are not used. */
const OPTIONS = [
  '-DCMAKE_BUILD_TYPE=Release',
  '-DGGML_NATIVE=ON',
  '-DBUILD_SHARED_LIBS=OFF',
  '-DLLAMA_OPENSSL=OFF',
  '-DLLAMA_BUILD_UI=OFF',
  '-DLLAMA_USE_PREBUILT_UI=OFF',
  '-DLLAMA_BUILD_TESTS=OFF',
  '-DLLAMA_BUILD_EXAMPLES=OFF',
];

/**
 * Builds llama.cpp's server for this processor from the git bundle in the npm package `node-llama-cpp`, in the
 * version that this service samples with. Done once: some minutes of all cores.
 * @returns the program
 * @throws {Error} naming a missing tool, or the failed command
 */
export async function buildLlamaServer(log: Log): Promise<string> {
  const version = llamaVersion();
  const folder = join(PEERS_FOLDER, 'llama-server', version);
  const program = join(folder, 'llama-server');
  if (existsSync(program)) return program;
  for (const [tool, name] of Object.entries(TOOLS))
    if (!(await hasTool(tool))) throw new Error(`llama-server is built from source: ${name} (${tool}) was not found`);
  return await withFileLock(join(PEERS_FOLDER, 'llama-server.lock'), async () => {
    if (!existsSync(program)) await build(version, folder, log);
    return program;
  });
}

async function build(version: string, folder: string, log: Log): Promise<void> {
  log(`building llama-server of node-llama-cpp ${version} into ${folder} (about ten minutes on two cores)`);
  // An interrupted build leaves its sources.
  rmSync(folder, { recursive: true, force: true });
  const work = join(folder, 'build');
  mkdirSync(work, { recursive: true });
  await run('npm', ['pack', '--silent', `node-llama-cpp@${version}`], work);
  const archive = readdirSync(work).find((name) => name.endsWith('.tgz'));
  if (archive === undefined) throw new Error(`npm packed no archive of node-llama-cpp ${version}`);
  await run('tar', ['xzf', archive, 'package/llama/gitRelease.bundle'], work);
  await run('git', ['clone', '--quiet', 'package/llama/gitRelease.bundle', 'llama.cpp'], work);
  await run('cmake', ['-S', 'llama.cpp', '-B', 'build', ...OPTIONS], work);
  const jobs = ['--parallel', String(availableParallelism())];
  await run('cmake', ['--build', 'build', '--target', 'llama-server', ...jobs], work);
  renameSync(join(work, 'build/bin/llama-server'), join(folder, 'llama-server'));
  rmSync(work, { recursive: true, force: true });
}

/** Version of the llama.cpp that this service has, from its library's package. */
function llamaVersion(): string {
  const libraries = join(ROOT, 'node_modules/@node-llama-cpp');
  const [name = ''] = readdirSync(libraries);
  const { version } = JSON.parse(readFileSync(join(libraries, name, 'package.json'), 'utf8')) as { version: string };
  return version;
}

async function hasTool(tool: string): Promise<boolean> {
  return await run(tool, ['--version'], ROOT).then(
    () => true,
    () => false,
  );
}

/** @throws {Error} with the last lines of its output */
async function run(command: string, args: readonly string[], cwd: string): Promise<void> {
  // A separate process group: the compilers are descendants.
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const killAtExit = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // It has just ended.
    }
  };
  process.once('exit', killAtExit);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (part: string) => (output = (output + part).slice(-2_000)));
  const code = await new Promise<number | null>((settle, fail) => {
    child.once('error', fail);
    child.once('close', settle);
  });
  process.off('exit', killAtExit);
  if (code !== 0) throw new Error(`"${[command, ...args].join(' ')}" failed (exit code ${code}):\n${output}`);
}
