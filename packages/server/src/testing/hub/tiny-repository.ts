import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { TINY_ARCHITECTURES, writeTinyFolder } from '@trainyard/trainer/testing';

export interface TinyRepository {
  /** Files in the Hugging Face format, by name. */
  readonly folder: Readonly<Record<string, Buffer>>;
  /** The same model as a GGUF file. */
  readonly gguf: Buffer;
}

/** Files of a random model, as a repository of a hub has them. */
export async function tinyRepository(): Promise<TinyRepository> {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-tiny-repository-'));
  try {
    const [folder, gguf] = [join(scratch, 'folder'), join(scratch, 'tiny.gguf')];
    await writeTinyFolder(folder, gguf, TINY_ARCHITECTURES.qwen2);
    const files = readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))] as const);
    return { folder: Object.fromEntries(files), gguf: readFileSync(gguf) };
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
