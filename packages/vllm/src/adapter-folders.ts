import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join, posix } from 'node:path';

import { type AdapterVersion, EngineError } from '@trainyard/backend';

/** Both are in the folder of a checkpoint; vLLM reads no others. */
const PEFT_FILES = ['adapter_config.json', 'adapter_model.safetensors'] as const;

export interface AdapterFoldersOptions {
  /** Folder of this machine that the servers see too: adapters are copied into it, each below its digest. Null: they see the folders of checkpoints. */
  readonly directory: string | null;
  /** The same folder as the servers see it. Null: by the same path. */
  readonly path: string | null;
}

/** Where the servers find the files of each adapter version. */
export class AdapterFolders {
  readonly #options: AdapterFoldersOptions;
  readonly #folders = new Map<string, string>();

  constructor(options: AdapterFoldersOptions) {
    this.#options = options;
  }

  has(digest: string): boolean {
    return this.#folders.has(digest);
  }

  /** As the servers see it. @throws {EngineError} engine.adapter_unreadable for one that is not added */
  pathOf(digest: string): string {
    const folder = this.#folders.get(digest);
    if (folder !== undefined) return folder;
    throw new EngineError('engine.adapter_unreadable', `no adapter version ${digest} is published`, {
      param: 'adapter',
    });
  }

  /** @throws {EngineError} engine.adapter_unreadable when its files cannot be copied */
  async add({ digest, directory }: AdapterVersion): Promise<void> {
    if (this.#folders.has(digest)) return;
    const { directory: shared, path } = this.#options;
    if (shared !== null) await copied(directory, shared, digest);
    this.#folders.set(digest, shared === null ? directory : posix.join(path ?? shared, digest));
  }

  async remove(digest: string): Promise<void> {
    const { directory: shared } = this.#options;
    if (this.#folders.delete(digest) && shared !== null)
      await rm(join(shared, digest), { recursive: true, force: true });
  }
}

/** Whole or not at all, also for others who copy it at the same time. */
async function copied(from: string, shared: string, digest: string): Promise<void> {
  const target = join(shared, digest);
  if (await isThere(target)) {
    if (await hasSameFiles(from, target)) return;
    // Damaged since it was copied, or by a copy of an earlier release that was cut off.
    await rm(target, { recursive: true, force: true });
  }
  const staged = join(shared, `.${digest}-${randomUUID()}`);
  try {
    await mkdir(shared).catch(() => undefined); // the next call says why
    await mkdir(staged);
    for (const name of PEFT_FILES) {
      await copyFile(join(from, name), join(staged, name));
      await sync(join(staged, name));
    }
    await rename(staged, target);
  } catch (cause) {
    await rm(staged, { recursive: true, force: true });
    if (await isThere(target)) return;
    const { code = 'unknown' } = cause as NodeJS.ErrnoException;
    throw new EngineError(
      'engine.adapter_unreadable',
      `the adapter ${digest} cannot be put where the vLLM servers see it (${code})`,
      { cause },
    );
  }
}

/** Makes sure that a file which has its name after a power cut has its content. */
async function sync(path: string): Promise<void> {
  await using file = await open(path, 'r+');
  await file.sync();
}

/** Whether the copy has the bytes of the original, whose digests are checked before it is published. */
async function hasSameFiles(from: string, copy: string): Promise<boolean> {
  try {
    for (const name of PEFT_FILES) {
      const [original, copied] = await Promise.all([readFile(join(from, name)), readFile(join(copy, name))]);
      if (!original.equals(copied)) return false;
    }
    return true;
  } catch {
    return false; // a file is missing: the copy is made again, which tells what is wrong
  }
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
