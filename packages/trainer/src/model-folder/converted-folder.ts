import { createHash } from 'node:crypto';
import {
  createReadStream,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { GgufWriter } from '@trainyard/native';
import { formatMegabytes } from '@trainyard/protocol/fields';
import { stampFileOf } from '@trainyard/transformer';
import { diskFault, replaceFile, syncDirectory, syncFile } from '../checkpoint/durable-directory.ts';
import { folderFiles, folderLabel, ModelFolder } from './model-folder.ts';
import { ModelFolderError } from './model-folder-error.ts';

/** Changes whenever the same folder gives another file. */
const CONVERTER = 1;
/** Above the header, and the padding between tensors. */
const SPARE_BYTES = 64 << 20;

export interface ConversionOptions {
  /** Folder of the GGUF file, created if missing. One process at a time converts into it. */
  readonly directory: string;
  readonly signal?: AbortSignal;
  /** Called before a conversion. */
  readonly onConvert?: (copy: string, sizeBytes: number) => void;
}

interface FileStamp {
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly sha256: string;
}

/** Content of the folder that a GGUF file was made from. */
interface Stamp {
  readonly converter: number;
  readonly files: Readonly<Record<string, FileStamp>>;
}

/**
 * GGUF file with the content of a folder in the Hugging Face format. It is made once, and again when the content
 * of a file changes; its path stays the same.
 *
 * @returns its path
 * @throws {ModelFolderError}; {TrainerError} `trainer.disk_full`
 */
export async function convertedFolder(path: string, options: ConversionOptions): Promise<string> {
  const { directory } = options;
  const copy = copyOf(path, directory);
  const last = readStamp(copy);
  const before = folderFiles(path);
  if (last !== null && isUnchanged(last, before)) return copy;
  const found = last === null ? null : await withDigests(before, options.signal);
  if (found === null || contentOf(found) !== contentOf(last!.files)) await convert(path, copy, options);
  const files = found ?? (await withDigests(before, options.signal));
  if (!isUnchanged({ converter: CONVERTER, files }, folderFiles(path)))
    throw new ModelFolderError('a file changed while it was converted: start again');
  const stamp: Stamp = { converter: CONVERTER, files };
  replaceFile(stampFileOf(copy), `${JSON.stringify(stamp, null, 2)}\n`);
  return copy;
}

/** Place of a folder's GGUF file; it is there only once the folder was converted. @throws {ModelFolderError} */
export function copyOf(path: string, directory: string): string {
  const real = realpathSync(path);
  const label = folderLabel(real)
    .replaceAll(/[^\w.-]/g, '_')
    .slice(0, 100);
  const digest = createHash('sha256').update(real).digest('hex').slice(0, 8);
  return join(directory, `${label}.${digest}.gguf`);
}

async function convert(path: string, copy: string, { signal, onConvert }: ConversionOptions): Promise<void> {
  using folder = ModelFolder.open(path);
  const sizeBytes = folder.tensors.reduce((sum, tensor) => sum + tensor.sizeBytes, 0);
  mkdirSync(dirname(copy), { recursive: true });
  const temporary = `${copy}.partial`;
  rmSync(temporary, { force: true });
  requireSpace(dirname(copy), sizeBytes);
  onConvert?.(copy, sizeBytes);
  // The stamp goes first: without it, an interrupted replacement is converted again.
  rmSync(stampFileOf(copy), { force: true });
  try {
    using writer = new GgufWriter(temporary, folder.metadata, folder.tensors);
    for (const tensor of folder.tensors) {
      await turn();
      signal?.throwIfAborted();
      writer.addBytes(tensor.bytes());
    }
    writer.finish();
    syncFile(temporary);
    renameSync(temporary, copy);
    syncDirectory(dirname(copy));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw diskFault(error, copy);
  }
}

function requireSpace(directory: string, sizeBytes: number): void {
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize > sizeBytes + SPARE_BYTES) return;
  throw new ModelFolderError(
    `the disk of ${directory} has ${formatMegabytes(bavail * bsize, 0)} free, but its GGUF file needs ${formatMegabytes(sizeBytes + SPARE_BYTES, 0)}: ` +
      'free some space, or set TRAINYARD_DATA_DIR to a folder on another disk',
  );
}

/** Null without a complete copy. */
function readStamp(copy: string): Stamp | null {
  try {
    const stamp = JSON.parse(readFileSync(stampFileOf(copy), 'utf8')) as Stamp;
    return statSync(copy).size > 0 && stamp.converter === CONVERTER ? stamp : null;
  } catch {
    return null; // one of the two is missing: make the copy
  }
}

function isUnchanged({ files }: Stamp, now: ReturnType<typeof folderFiles>): boolean {
  const names = Object.keys(files);
  return (
    names.length === now.size &&
    names.every((name) => {
      const [then, file] = [files[name]!, now.get(name)];
      return then.sizeBytes === file?.sizeBytes && then.modifiedMs === file.modifiedMs;
    })
  );
}

const contentOf = (files: Stamp['files']): string =>
  JSON.stringify(Object.entries(files).map(([name, { sha256 }]) => [name, sha256]));

async function withDigests(files: ReturnType<typeof folderFiles>, signal?: AbortSignal): Promise<Stamp['files']> {
  const stamped: Record<string, FileStamp> = {};
  for (const [name, { path, sizeBytes, modifiedMs }] of files) {
    const hash = createHash('sha256');
    const stream = createReadStream(path, { highWaterMark: 4 << 20, ...(signal && { signal }) });
    for await (const piece of stream) hash.update(piece as Uint8Array);
    stamped[name] = { sizeBytes, modifiedMs, sha256: hash.digest('hex') };
  }
  return stamped;
}
