#!/usr/bin/env node
import { runCommandLine } from './run-command-line.ts';

// A reader that has seen enough, as in `trainyard --help | head -1`, is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

process.exitCode = await runCommandLine(process.argv.slice(2));
