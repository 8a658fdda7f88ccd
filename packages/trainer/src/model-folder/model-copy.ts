import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, readFileSync, renameSync, rmSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { formatMegabytes } from '@trainyard/protocol/fields';
import { stampFileOf } from '@trainyard/transformer';
import { diskFault, replaceFile, syncDirectory, syncFile } from '../checkpoint/durable-directory.ts';
import { ModelFolderError } from './model-folder-error.ts';

/** Changes whenever the same source gives another file. */
const CONVERTER = 2;
/** Above the header, and the padding between tensors. */
const SPARE_BYTES = 64 << 20;

export interface SourceFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/** Files from which a GGUF file is made: a folder in the Hugging Face format, or a GGUF file with other metadata. */
export interface CopySource {
  /** Name of the model, a part of the copy's name. */
  readonly label: string;
  /** Absolute paths without symbolic links, which tell it from other sources. */
  readonly places: readonly string[];
  /** All files that are read, by name. @throws {ModelFolderError} */
  files(): ReadonlyMap<string, SourceFile>;
  /** Checks all but the values of the weights. @throws {ModelFolderError} */
  open(): OpenSource;
}

export interface OpenSource extends Disposable {
  /** Size of the weights. */
  readonly sizeBytes: number;
  /** Writes the GGUF file, and yields often. @throws {ModelFolderError} */
  write(path: string): Iterable<unknown>;
}

export interface CopyOptions {
  /** Folder of the GGUF file, created if missing. One process at a time makes copies in it. */
  readonly directory: string;
  readonly signal?: AbortSignal;
  /** Called before a copy is made. */
  readonly onCopy?: (copy: string, sizeBytes: number) => void;
}

interface FileStamp {
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly sha256: string;
}

/** Content that a GGUF file was made from. */
interface Stamp {
  readonly converter: number;
  /** Places of the source; absent in stamps of before. */
  readonly places?: readonly string[];
  readonly files: Readonly<Record<string, FileStamp>>;
}

/**
 * GGUF file made from a source. It is made once, and again when the content of a file changes; its path stays the
 * same.
 *
 * @returns its path
 * @throws {ModelFolderError}; {TrainerError} `trainer.disk_full`
 */
export async function modelCopy(source: CopySource, options: CopyOptions): Promise<string> {
  const copy = copyPath(source, options.directory);
  const last = readStamp(copy);
  const before = source.files();
  if (last?.places !== undefined && isUnchanged(last, before)) return copy;
  const found = last === null ? null : await withDigests(before, options.signal);
  if (found === null || contentOf(found) !== contentOf(last!.files)) await write(source, copy, options);
  const files = found ?? (await withDigests(before, options.signal));
  const stamp: Stamp = { converter: CONVERTER, places: source.places, files };
  if (!isUnchanged(stamp, source.files()))
    throw new ModelFolderError('a file changed while it was converted: start again');
  replaceFile(stampFileOf(copy), `${JSON.stringify(stamp, null, 2)}\n`);
  return copy;
}

/** Place of a source's GGUF file; it is there only once it was made. */
export function copyPath({ label, places }: CopySource, directory: string): string {
  const name = label.replaceAll(/[^\w.-]/g, '_').slice(0, 100);
  const digest = createHash('sha256').update(places.join('\0')).digest('hex').slice(0, 8);
  return join(directory, `${name}.${digest}.gguf`);
}

/**
 * Places of the files from which a GGUF file was made; empty if they are unknown, null for any other file.
 */
export function readCopySource(copy: string): readonly string[] | null {
  const stamp = readStamp(copy);
  return stamp === null ? null : (stamp.places ?? []);
}

async function write(source: CopySource, copy: string, { signal, onCopy }: CopyOptions): Promise<void> {
  using opened = source.open();
  mkdirSync(dirname(copy), { recursive: true });
  const temporary = `${copy}.partial`;
  rmSync(temporary, { force: true });
  requireSpace(dirname(copy), opened.sizeBytes);
  onCopy?.(copy, opened.sizeBytes);
  // The stamp goes first: without it, an interrupted replacement is made again.
  rmSync(stampFileOf(copy), { force: true });
  try {
    for (const _ of opened.write(temporary)) {
      await turn();
      signal?.throwIfAborted();
    }
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
    return statSync(copy).size > 0 && stamp.converter === CONVERTER && typeof stamp.files === 'object' ? stamp : null;
  } catch {
    return null; // one of the two is missing: make the copy
  }
}

function isUnchanged({ files }: Stamp, now: ReadonlyMap<string, SourceFile>): boolean {
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

async function withDigests(files: ReadonlyMap<string, SourceFile>, signal?: AbortSignal): Promise<Stamp['files']> {
  const stamped: Record<string, FileStamp> = {};
  for (const [name, { path, sizeBytes, modifiedMs }] of files) {
    const hash = createHash('sha256');
    const stream = createReadStream(path, { highWaterMark: 4 << 20, ...(signal && { signal }) });
    for await (const piece of stream) hash.update(piece as Uint8Array);
    stamped[name] = { sizeBytes, modifiedMs, sha256: hash.digest('hex') };
  }
  return stamped;
}
