import type { Command } from 'commander';

import { doctorCommand } from './doctor.ts';
import { exportCommand } from './export.ts';
import { keysCommand } from './keys.ts';
import { serveCommand } from './serve.ts';

/** Makes every command, in the order in which the help lists them. A new one is a file that exports such a function, and a line here. */
export const COMMANDS: readonly (() => Command)[] = [serveCommand, doctorCommand, exportCommand, keysCommand];
