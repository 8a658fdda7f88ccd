/**
 * Builds a server of S3's interface (versitygw, Apache-2.0; Go 1.25 or later, some minutes once) into
 * .cache/s3 and runs the suite of blobs on it, and a service with its blobs there.
 *
 *   npm run lab -- s3
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { withFileLock } from '../../scripts/lib/file-lock.mjs';
import { findPostgres } from '../../scripts/lib/postgres.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
const VERSION = 'v1.8.0';
const folder = join(ROOT, '.cache/s3', VERSION);
const program = join(folder, 'versitygw');

await withFileLock(join(ROOT, '.cache/s3.lock'), async () => {
  if (existsSync(program)) return;
  console.error(`s3-suite: building versitygw ${VERSION} into ${folder} (go install)`);
  const module = `github.com/versity/versitygw/cmd/versitygw@${VERSION}`;
  const { status, error } = spawnSync('go', ['install', module], {
    stdio: 'inherit',
    env: { ...process.env, GOBIN: folder, GOFLAGS: '-mod=mod' },
  });
  if (error) throw new Error(`go is missing (${error.message}): install Go, or put versitygw at ${program}`);
  if (status !== 0) throw new Error(`go install ended with ${status}`);
});
const postgres = findPostgres(process.env);
if (postgres === null)
  throw new Error('PostgreSQL is missing. Install it with "node scripts/bootstrap.mjs --postgres"');
const tests = spawn(process.execPath, [join(ROOT, 'scripts/test.mjs'), '--project', 's3', ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, TRAINYARD_TEST_S3_SERVER: program, TRAINYARD_TEST_POSTGRES: postgres },
});
const [code] = await once(tests, 'exit');
process.exitCode = code ?? 1;
