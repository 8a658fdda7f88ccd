#!/usr/bin/env node
import { writeSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// Reading and compiling the sources is a third of the work of a start, in each process of the service. It lies beside the code, not in the shared folder of the
// system, where another user could leave code for this one; where it cannot be written, nothing is kept.
const compiled = join(import.meta.dirname, '../../../.cache/compiled');
const isKept = enableCompileCache(compiled).directory !== undefined;
// The processes that this one starts go by the variable.
const folder = isKept ? (process.env['NODE_COMPILE_CACHE'] ||= compiled) : null;

const isService = process.argv[2] === 'serve';
// A reader that has seen enough, as in `trainyard --help | head -1`, is no failure, and a service goes on without.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (isService) return;
  if (error.code === 'EPIPE') process.exit(0);
  writeSync(process.stderr.fd, `trainyard: cannot write the output: ${error.message}\n`);
  process.exit(1);
});
// Nobody is left to tell it.
process.stderr.on('error', () => undefined);

// Behind the cache, so that it holds what these import.
if (isService && folder !== null) {
  const { compileSources } = await import('./host/compiled-sources.ts');
  compileSources(folder);
}
const { runCommandLine } = await import('./run-command-line.ts');
process.exitCode = await runCommandLine(process.argv.slice(2));
