import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';

import { type AdapterVersion, EngineError } from '@trainyard/backend';

/** Files that vLLM reads; a checkpoint's folder has both. */
const CONFIG_FILE = 'adapter_config.json';
const PEFT_FILES = [CONFIG_FILE, 'adapter_model.safetensors'] as const;

export interface AdapterFoldersOptions {
  /**
   * Local folder shared with the servers: adapters are copied into it, each under its digest. Null: the
   * servers see the folders of checkpoints.
   */
  readonly directory: string | null;
  /** Path of that folder on the servers. Null: the same path. */
  readonly path: string | null;
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
   * been removed. @throws {EngineError} engine.adapter_unreadable if its files cannot be copied
   */
  async add({ digest, directory }: AdapterVersion): Promise<void> {
    const { directory: shared, path, baseModel } = this.#options;
    if (shared === null) {
      this.#folders.set(digest, directory);
      return;
    }
    if (this.#folders.has(digest)) return;
    await copied(directory, shared, { digest, baseModel: baseModel() });
    this.#folders.set(digest, posix.join(path ?? shared, digest));
  }

  async remove(digest: string): Promise<void> {
    const { directory: shared } = this.#options;
    if (this.#folders.delete(digest) && shared !== null)
      await rm(join(shared, digest), { recursive: true, force: true });
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
    for (const name of PEFT_FILES) {
      if (name === CONFIG_FILE) await writeFile(join(staged, name), await configOf(from, baseModel));
      else await copyFile(join(from, name), join(staged, name));
      await sync(join(staged, name));
    }
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

/**
 * Configuration of an adapter with the name of its base model. An unreadable one is copied unchanged, and the
 * servers report the fault.
 */
async function configOf(directory: string, baseModel: string | null): Promise<Buffer> {
  const bytes = await readFile(join(directory, CONFIG_FILE));
  if (baseModel === null) return bytes;
  try {
    const config = JSON.parse(bytes.toString()) as object;
    return Buffer.from(`${JSON.stringify({ ...config, base_model_name_or_path: baseModel }, null, 2)}\n`);
  } catch {
    return bytes;
  }
}

/** Syncs a file, so that after a power cut a name always has its content. */
async function sync(path: string): Promise<void> {
  await using file = await open(path, 'r+');
  await file.sync();
}

/** True if the copy has the bytes of the original, whose digests are checked before it is published. */
async function hasSameFiles(from: string, copy: string, baseModel: string | null): Promise<boolean> {
  try {
    for (const name of PEFT_FILES) {
      const wanted = name === CONFIG_FILE ? configOf(from, baseModel) : readFile(join(from, name));
      const [original, copied] = await Promise.all([wanted, readFile(join(copy, name))]);
      if (!original.equals(copied)) return false;
    }
    return true;
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
