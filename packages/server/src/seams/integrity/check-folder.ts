import { randomUUID } from 'node:crypto';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { DigestCache, stampOf } from '@trainyard/store';
import {
  DamagedFileError,
  formatFileSums,
  OPTIMIZER_FILE,
  parseFileSums,
  requireDigest,
  requireSum,
  SUMS_FILE,
} from '@trainyard/trainer';

/** File that an adapter's digest covers. */
export const WEIGHTS_FILE = 'adapter_model.safetensors';
const MAX_FOLDERS = 10_000;

const ENGINE_FILES = ['adapter_config.json', WEIGHTS_FILE, 'adapter.gguf', SUMS_FILE];
/**
 * Files that a use of a folder reads: training, or sampling from one of its files. The optimizer state may be absent,
 * for `gguf` also the PEFT weights.
 */
const FILES_OF = {
  gguf: ENGINE_FILES,
  peft: ENGINE_FILES,
  training: [...ENGINE_FILES, 'digest', OPTIMIZER_FILE],
} as const;

export interface FolderCheck {
  /** SHA-256 of the adapter's weights in the database, hex. Null: none recorded. */
  readonly digest: string | null;
  readonly use: keyof typeof FILES_OF;
  readonly log: (line: string) => void;
}

const digests = new DigestCache();
/** Keyed by use and folder: stamps of the files when they last passed. */
const passed = new Map<string, string>();

/**
 * Compares the files of a checkpoint or adapter with their recorded digests. Unchanged files are not read
 * again. Folders of earlier releases have a digest only of their weights: their other files are accepted
 * once, and their digests recorded.
 * @throws {DamagedFileError}
 */
export async function checkFolder(directory: string, check: FolderCheck): Promise<void> {
  const names = FILES_OF[check.use];
  const key = `${check.use} ${check.digest} ${directory}`;
  const stamps = (await Promise.all(names.map((name) => stampOrNone(join(directory, name))))).join('; ');
  if (passed.get(key) === stamps) return;
  await compare(directory, check);
  passed.set(key, stamps);
  const [oldest] = passed.keys();
  if (passed.size > MAX_FOLDERS && oldest !== undefined) passed.delete(oldest);
}

async function compare(directory: string, { digest, use, log }: FolderCheck): Promise<void> {
  const there = new Set(await readdir(directory).catch(missing));
  const digestOf = async (name: string): Promise<string> => await digests.of(join(directory, name));
  const needsWeights = use !== 'gguf' || !there.has(SUMS_FILE);
  if (there.has('adapter.gguf') && !there.has(WEIGHTS_FILE) && needsWeights)
    throw new DamagedFileError(WEIGHTS_FILE, 'it is missing');
  if (digest !== null && there.has(WEIGHTS_FILE)) requireDigest(WEIGHTS_FILE, await digestOf(WEIGHTS_FILE), digest);
  if (!there.has(SUMS_FILE)) {
    if (there.has(WEIGHTS_FILE)) await addSums(directory, there, log);
    return;
  }
  const sums = parseFileSums(await readFile(join(directory, SUMS_FILE), 'utf8'));
  if (digest !== null) requireSum(sums, WEIGHTS_FILE, digest);
  for (const name of FILES_OF[use]) {
    if (name === SUMS_FILE || (name === OPTIMIZER_FILE && !there.has(name))) continue;
    if (!there.has(name)) {
      if (sums.has(name) && (needsWeights || name !== WEIGHTS_FILE)) throw new DamagedFileError(name, 'it is missing');
      continue;
    }
    requireSum(sums, name, await digestOf(name));
  }
}

/**
 * Writes the digests of a folder that has none. In a read-only folder it gives up, and only the weights are
 * checked.
 */
async function addSums(directory: string, names: ReadonlySet<string>, log: (line: string) => void): Promise<void> {
  const sums = await Promise.all(
    [...names].toSorted().map(async (name) => [name, await digests.of(join(directory, name))] as const),
  );
  const temporary = join(directory, `.${SUMS_FILE}-${randomUUID()}`);
  try {
    await writeFile(temporary, formatFileSums(sums), { flush: true });
    await rename(temporary, join(directory, SUMS_FILE));
    log(
      `${directory} is from an earlier release and has digests only for its weights: its other files are accepted, and ${SUMS_FILE} is written`,
    );
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    log(
      `${directory} has digests only for its weights, and ${SUMS_FILE} cannot be written: ${(error as Error).message}`,
    );
  }
}

async function stampOrNone(path: string): Promise<string> {
  try {
    return await stampOf(path);
  } catch {
    return 'none';
  }
}

function missing(): never {
  throw new DamagedFileError(WEIGHTS_FILE, 'its folder is missing');
}
