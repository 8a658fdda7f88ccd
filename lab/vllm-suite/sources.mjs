import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Release whose tests are run. */
export const VLLM_VERSION = '0.33.0';

/** Stub of the part of PyTorch that vLLM's build script needs for its package name; nothing is built. */
const TORCH = {
  'torch/__init__.py': 'class version:\n    cuda = None\n    hip = None\n    xpu = None\n',
  'torch/utils/__init__.py': '',
  'torch/utils/cpp_extension.py': 'CUDA_HOME = None\nROCM_HOME = None\n',
};

/**
 * Fetches the source distribution of vLLM through pip, once, and copies some of its tests.
 *
 * @param {string} cache a permanent folder
 * @param {string} python with the packages that build the distribution's metadata
 * @param {{ folder: string, files: readonly string[] }} copied the folder gets `tests/…`; the files are below `tests/`
 * @param {(line: string) => void} log
 */
export async function copyVllmTests(cache, python, { folder, files }, log) {
  const archive = join(cache, `vllm-${VLLM_VERSION}.tar.gz`);
  if (!existsSync(archive)) {
    log(`fetching the source distribution of vllm ${VLLM_VERSION} (40 MB, a minute)`);
    await download(cache, python);
  }
  const unpacked = join(cache, 'unpacked');
  await rm(unpacked, { recursive: true, force: true });
  await mkdir(unpacked, { recursive: true });
  const root = `vllm-${VLLM_VERSION}`;
  await run('tar', ['-xzf', archive, '-C', unpacked, `${root}/tests/entrypoints`], {});
  await rm(folder, { recursive: true, force: true });
  // Their `tests/conftest.py` needs PyTorch; empty packages replace theirs.
  for (const file of files.flatMap((name) => [name, ...fixturesOf(name)])) {
    const source = join(unpacked, root, 'tests', file);
    const target = join(folder, 'tests', file);
    if (!existsSync(source) && file.endsWith('conftest.py')) continue;
    await mkdir(dirname(target), { recursive: true });
    await cp(source, target);
  }
  await makePackages(join(folder, 'tests'));
  await rm(unpacked, { recursive: true, force: true });
}

/** @param {string} cache @param {string} python */
async function download(cache, python) {
  const torch = join(cache, 'torch-stand-in');
  for (const [name, text] of Object.entries(TORCH)) {
    await mkdir(dirname(join(torch, name)), { recursive: true });
    await writeFile(join(torch, name), text);
  }
  const partial = join(cache, 'download');
  await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { recursive: true });
  const options = [
    '--quiet',
    '--disable-pip-version-check',
    '--no-deps',
    '--no-binary',
    ':all:',
    '--no-build-isolation',
  ];
  await run(python, ['-m', 'pip', 'download', ...options, '--dest', partial, `vllm==${VLLM_VERSION}`], {
    // Without this, pip refuses an archive whose metadata says 0.33.0+empty.
    VLLM_VERSION_OVERRIDE: VLLM_VERSION,
    VLLM_TARGET_DEVICE: 'empty',
    PYTHONPATH: torch,
    PATH: `${dirname(python)}:${process.env['PATH']}`,
  });
  await rename(join(partial, `vllm-${VLLM_VERSION}.tar.gz`), join(cache, `vllm-${VLLM_VERSION}.tar.gz`));
  await rm(partial, { recursive: true });
}

/**
 * Fixtures that pytest would load for a file: a `conftest.py` in its folder and in each parent. @param
 * {string} file
 */
function fixturesOf(file) {
  const folders = file.split('/').slice(0, -1);
  return folders.map((_, depth) => [...folders.slice(0, depth + 1), 'conftest.py'].join('/'));
}

/** @param {string} folder */
async function makePackages(folder) {
  await writeFile(join(folder, '__init__.py'), '');
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory()) await makePackages(join(folder, entry.name));
}

/** @param {string} command @param {readonly string[]} args @param {Record<string, string>} environment */
async function run(command, args, environment) {
  const child = spawn(command, args, { stdio: ['ignore', 2, 2], env: { ...process.env, ...environment } });
  /** @type {number | null} */
  const code = await new Promise((settle, fail) => {
    child.on('error', fail);
    child.on('close', settle);
  });
  if (code !== 0) throw new Error(`"${command} ${args.slice(0, 3).join(' ')} …" failed (exit code ${code})`);
}

/** @param {string} path @returns {Promise<any>} */
export async function readJson(path) {
  return JSON.parse(await readFile(path, 'utf8'));
}
