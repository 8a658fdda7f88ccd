import { lstatSync, readdirSync, readFileSync, realpathSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { shown } from '@trainyard/native';
import type { SourceFile } from './model-copy.ts';
import { ModelFolderError } from './model-folder-error.ts';

/** Far above real files; parsed JSON takes several times its size in memory. */
const MAX_JSON_BYTES = 64 << 20;

/** Files directly in a folder. Symbolic links are followed only into the blobs of their own Hugging Face cache. */
export class FolderFiles {
  /** Without symbolic links. */
  readonly directory: string;
  readonly names: ReadonlySet<string>;

  /** @throws {ModelFolderError} */
  constructor(path: string) {
    try {
      this.directory = realpathSync(path);
      this.names = new Set(readdirSync(this.directory));
    } catch (error) {
      throw new ModelFolderError(`the folder cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }

  /** @throws {ModelFolderError} for a name that leaves the folder, or anything but a file */
  pathOf(name: string): string {
    if (name === '' || name === '.' || name === '..' || /[/\\\0]/.test(name))
      throw new ModelFolderError(`the file name ${shown(name)} does not stay in the folder`);
    const path = join(this.directory, name);
    const stat = this.#stat(path, name);
    if (!stat.isSymbolicLink()) return stat.isFile() ? path : refuse(name, 'is not a file');
    const target = this.#linkTarget(path, name);
    return statSync(target).isFile() ? target : refuse(name, 'is not a file');
  }

  /** @throws {ModelFolderError} */
  readText(name: string): string {
    const path = this.pathOf(name);
    const { size } = statSync(path);
    if (size > MAX_JSON_BYTES) refuse(name, `has ${size} bytes; at most ${MAX_JSON_BYTES} are read`);
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path));
    } catch (error) {
      throw new ModelFolderError(`${name} cannot be read as UTF-8: ${(error as Error).message}`, { cause: error });
    }
  }

  /** @throws {ModelFolderError} */
  readJson(name: string): Readonly<Record<string, unknown>> {
    let value: unknown;
    try {
      value = JSON.parse(this.readText(name));
    } catch (error) {
      if (error instanceof ModelFolderError) throw error;
      throw new ModelFolderError(`${name} is not JSON: ${(error as Error).message.slice(0, 120)}`, { cause: error });
    }
    return isRecord(value) ? value : refuse(name, 'is not a JSON object');
  }

  /** An empty object for a missing file. @throws {ModelFolderError} */
  readOptionalJson(name: string): Readonly<Record<string, unknown>> {
    return this.names.has(name) ? this.readJson(name) : {};
  }

  #stat(path: string, name: string): Stats {
    try {
      return lstatSync(path);
    } catch (error) {
      throw new ModelFolderError(`${name} is missing`, { cause: error });
    }
  }

  /** `models--org--name/snapshots/REVISION/file` links to `models--org--name/blobs/DIGEST`. */
  #linkTarget(path: string, name: string): string {
    let target: string;
    try {
      target = realpathSync(path);
    } catch (error) {
      throw new ModelFolderError(`${name} is a broken symbolic link: download the file again`, { cause: error });
    }
    const snapshots = dirname(this.directory);
    const blobs = resolve(snapshots, '..', 'blobs') + sep;
    if (basename(snapshots) === 'snapshots' && target.startsWith(blobs)) return target;
    return refuse(name, 'is a symbolic link out of the folder: copy the file into the folder');
  }
}

/** Size and time of a file. */
export function sourceFile(path: string): SourceFile {
  const { size, mtimeMs } = statSync(path);
  return { path, sizeBytes: size, modifiedMs: Math.trunc(mtimeMs) };
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function refuse(name: string, problem: string): never {
  throw new ModelFolderError(`${name} ${problem}`);
}
