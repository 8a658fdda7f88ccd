import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';

import { type AdapterVersion, EngineError } from '@trainyard/backend';
import { hasOwnShapes, uniformAdapter } from './uniform-adapter.ts';

/** Files that vLLM reads; a checkpoint's folder has both. */
const CONFIG_FILE = 'adapter_config.json';
const WEIGHTS_FILE = 'adapter_model.safetensors';
const PEFT_FILES = [CONFIG_FILE, WEIGHTS_FILE] as const;

export interface AdapterFoldersOptions {
  /**
   * Local folder shared with the servers: adapters are copied into it, each under its digest. Null: the
   * servers see the folders of checkpoints.
   */
  readonly directory: string | null;
  /** Path of that folder on the servers. Null: the same path. */
  readonly path: string | null;
  /**
   * Local folder at the same path on the servers, for adapters in another form than their checkpoint's, if there
   * is no `directory`. Default null: these cannot be added then.
   */
  readonly formDirectory?: string | null;
  /**
   * Model that the servers were started with: their own resolver accepts only adapters that name it. Null:
   * not known yet.
   */
  readonly baseModel: () => string | null;
}

/** Folders in which the servers find the files of each adapter version. */
export class AdapterFolders {
  readonly #options: AdapterFoldersOptions;
  readonly #folders = new Map<string, string>();

  constructor(options: AdapterFoldersOptions) {
    this.#options = options;
  }

  has(digest: string): boolean {
    return this.#folders.has(digest);
  }

  /** Path on the servers. @throws {EngineError} engine.adapter_unreadable for a version that is not added */
  pathOf(digest: string): string {
    const folder = this.#folders.get(digest);
    if (folder !== undefined) return folder;
    throw new EngineError('engine.adapter_unreadable', `no adapter version ${digest} is published`, {
      param: 'adapter',
    });
  }

  /**
   * Adds a version. Without a shared folder the newest directory of a digest is used: an older one may have
   * been removed. An adapter whose modules have their own ranks or scales is written in the form that vLLM
   * computes, {@link uniformAdapter}. @throws {EngineError} engine.adapter_unreadable if its files cannot be
   * copied
   */
  async add({ digest, directory }: AdapterVersion): Promise<void> {
    const { directory: shared, path, baseModel, formDirectory = null } = this.#options;
    if (shared !== null) {
      if (this.#folders.has(digest)) return;
      await copied(directory, shared, { digest, baseModel: baseModel() });
      this.#folders.set(digest, posix.join(path ?? shared, digest));
      return;
    }
    const { config } = await configOf(directory).catch(() => ({ config: null }));
    if (!hasOwnShapes(config)) {
      this.#folders.set(digest, directory);
      return;
    }
    if (formDirectory === null)
      throw new EngineError(
        'engine.adapter_unreadable',
        'vLLM needs a copy of an adapter with `use_rslora`, `rank_pattern` or `alpha_pattern`: set `--vllm-adapter-dir`',
      );
    await copied(directory, formDirectory, { digest, baseModel: null });
    this.#folders.set(digest, join(formDirectory, digest));
  }

  async remove(digest: string): Promise<void> {
    const { directory, formDirectory = null } = this.#options;
    const copies = directory ?? formDirectory;
    if (this.#folders.delete(digest) && copies !== null)
      await rm(join(copies, digest), { recursive: true, force: true });
  }
}

/** Copies atomically, also for concurrent copies by other processes. */
async function copied(
  from: string,
  shared: string,
  { digest, baseModel }: { digest: string; baseModel: string | null },
): Promise<void> {
  const target = join(shared, digest);
  if (await isThere(target)) {
    if (await hasSameFiles(from, target, baseModel)) return;
    // Damaged since it was copied, or a partial copy of an earlier release.
    await rm(target, { recursive: true, force: true });
  }
  const staged = join(shared, `.${digest}-${randomUUID()}`);
  try {
    await mkdir(shared).catch(() => undefined); // the next call reports the error
    await mkdir(staged);
    const { config, weights } = await contentOf(from, baseModel);
    await writeFile(join(staged, CONFIG_FILE), config);
    if (weights === null) await copyFile(join(from, WEIGHTS_FILE), join(staged, WEIGHTS_FILE));
    else await writeFile(join(staged, WEIGHTS_FILE), weights);
    for (const name of PEFT_FILES) await sync(join(staged, name));
    await rename(staged, target);
  } catch (cause) {
    await rm(staged, { recursive: true, force: true });
    if (await isThere(target)) return;
    const { code = 'unknown' } = cause as NodeJS.ErrnoException;
    throw new EngineError(
      'engine.adapter_unreadable',
      `the adapter ${digest} cannot be written to --vllm-adapter-dir (${code})`,
      { cause },
    );
  }
}

/** Null if it is not JSON: the servers report the fault. */
async function configOf(directory: string): Promise<{ readonly bytes: Buffer; readonly config: object | null }> {
  const bytes = await readFile(join(directory, CONFIG_FILE));
  try {
    return { bytes, config: JSON.parse(bytes.toString()) as object };
  } catch {
    return { bytes, config: null };
  }
}

/**
 * Files for the servers: the configuration with the name of its base model, and the weights, null if they are the
 * adapter's.
 */
async function contentOf(
  directory: string,
  baseModel: string | null,
): Promise<{ readonly config: Buffer; readonly weights: Buffer | null }> {
  const { bytes, config } = await configOf(directory);
  const content = hasOwnShapes(config)
    ? uniformAdapter({ config: bytes, weights: await readFile(join(directory, WEIGHTS_FILE)) })
    : { config: bytes, weights: null };
  if (config === null || baseModel === null) return content;
  const named = { ...(JSON.parse(content.config.toString()) as object), base_model_name_or_path: baseModel };
  return { ...content, config: Buffer.from(`${JSON.stringify(named, null, 2)}\n`) };
}

/** Syncs a file, so that after a power cut a name always has its content. */
async function sync(path: string): Promise<void> {
  await using file = await open(path, 'r+');
  await file.sync();
}

/** True if the copy has the bytes made from the original, whose digests are checked before it is published. */
async function hasSameFiles(from: string, copy: string, baseModel: string | null): Promise<boolean> {
  try {
    const { config, weights } = await contentOf(from, baseModel);
    const wanted = [config, weights ?? (await readFile(join(from, WEIGHTS_FILE)))];
    const copies = await Promise.all(PEFT_FILES.map((name) => readFile(join(copy, name))));
    return copies.every((copied, i) => wanted[i]!.equals(copied));
  } catch {
    return false; // a file is missing: copying again reports the fault
  }
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
