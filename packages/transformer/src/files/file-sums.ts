import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { fileDigest } from './file-digest.ts';

/** Digests of the other files, for `sha256sum -c SHA256SUMS`. */
export const SUMS_FILE = 'SHA256SUMS';

const LINE = /^([0-9a-f]{64}) {2}([^/\\]+)$/;

/** A file that is missing or differs from the one written. The message does not contain the folder. */
export class DamagedFileError extends Error {
  override readonly name = 'DamagedFileError';
  readonly file: string;

  constructor(file: string, reason: string) {
    super(`${file} is damaged: ${reason}`);
    this.file = file;
  }
}

/** Text of a folder's sums file. @param known digests of files that were hashed while they were written */
export function fileSums(directory: string, known: Readonly<Record<string, string>> = {}): string {
  const names = readdirSync(directory).filter((name) => name !== SUMS_FILE);
  return formatFileSums(
    names.toSorted().map((name) => [name, known[name] ?? fileDigest(join(directory, name)).sha256]),
  );
}

/** @param sums in order @see parseFileSums */
export function formatFileSums(sums: Iterable<readonly [name: string, digest: string]>): string {
  return Array.from(sums, ([name, digest]) => `${digest}  ${name}\n`).join('');
}

/** Null if the folder has no sums file, as in earlier releases. @throws {DamagedFileError} if it is damaged */
export function readFileSums(directory: string): ReadonlyMap<string, string> | null {
  let text: string;
  try {
    text = readFileSync(join(directory, SUMS_FILE), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
  return parseFileSums(text);
}

/** @throws {DamagedFileError} */
export function parseFileSums(text: string): ReadonlyMap<string, string> {
  const lines = text.split('\n');
  if (lines.pop() !== '' || lines.length === 0) throw new DamagedFileError(SUMS_FILE, 'it is truncated');
  return new Map(
    lines.map((line) => {
      const [, digest, name] = LINE.exec(line) ?? [];
      if (digest === undefined || name === undefined)
        throw new DamagedFileError(SUMS_FILE, 'a line is not a digest and a name');
      return [name, digest];
    }),
  );
}

/** @throws {DamagedFileError} if they differ or no digest is recorded */
export function requireSum(sums: ReadonlyMap<string, string>, file: string, sha256: string): void {
  const expected = sums.get(file);
  if (expected === undefined) throw new DamagedFileError(SUMS_FILE, `it has no digest of ${file}`);
  requireDigest(file, sha256, expected);
}

export function requireDigest(file: string, sha256: string, expected: string): void {
  if (sha256 === expected) return;
  throw new DamagedFileError(file, `its SHA-256 is ${sha256.slice(0, 12)}…, expected ${expected.slice(0, 12)}…`);
}

/** Checks the recorded digests of files. A folder without sums passes. @throws {DamagedFileError} */
export function checkFiles(directory: string, names: readonly string[]): void {
  const sums = readFileSums(directory);
  if (sums === null) return;
  for (const name of names) requireSum(sums, name, digestOf(directory, name));
}

function digestOf(directory: string, name: string): string {
  try {
    return fileDigest(join(directory, name)).sha256;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT')
      throw new DamagedFileError(name, 'it is missing');
    throw error;
  }
}
