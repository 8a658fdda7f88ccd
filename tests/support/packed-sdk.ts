import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { withFileLock } from '../../scripts/lib/file-lock.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
/** All workers of a run of Vitest share it. */
const FOLDER = join(tmpdir(), `packed-sdk-${process.ppid}`);

/** Path of the SDK's tarball, which is packed once in a run of the tests. */
export async function packedSdk(): Promise<string> {
  const known = join(FOLDER, 'path');
  await withFileLock(join(FOLDER, 'lock'), async () => {
    if (existsSync(known)) return;
    const pack = [join(ROOT, 'scripts/pack-sdk.mjs'), '--out', join(FOLDER, 'packed')];
    const { stdout } = await promisify(execFile)(process.execPath, pack);
    await writeFile(`${known}.new`, stdout.trim());
    await rename(`${known}.new`, known);
  });
  return await readFile(known, 'utf8');
}
