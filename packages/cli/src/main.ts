#!/usr/bin/env node
import { writeSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// Reading and compiling the sources is a third of the work of a start, in each process of the service. The
// cache is next to the code, not in the system's shared folder, in which another user could plant code;
// without write access nothing is cached.
const compiled = join(import.meta.dirname, '../../../.cache/compiled');
const isKept = enableCompileCache(compiled).directory !== undefined;
// Child processes use the variable.
const folder = isKept ? (process.env['NODE_COMPILE_CACHE'] ||= compiled) : null;

const isService = process.argv[2] === 'serve';
// A reader that closes early, as in `trainyard --help | head -1`, is no failure, and a service continues
// without it.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (isService) return;
  if (error.code === 'EPIPE') process.exit(0);
  writeSync(process.stderr.fd, `trainyard: cannot write the output: ${error.message}\n`);
  process.exit(1);
});
// stderr is gone; there is nowhere to report it.
process.stderr.on('error', () => undefined);

// Import after enabling the cache, so that it covers these modules too. JavaScript has no types to remove.
if (isService && folder !== null && import.meta.filename.endsWith('.ts')) {
  const { compileSources } = await import('./host/compiled-sources.ts');
  compileSources(folder);
}
const { runCommandLine } = await import('./run-command-line.ts');
process.exitCode = await runCommandLine(process.argv.slice(2));
