import type { Command } from './command.ts';
import { doctor } from './doctor.ts';
import { exportModel } from './export.ts';
import { keys } from './keys.ts';
import { serve } from './serve.ts';

/** Every command, in the order in which the help lists them. A new one is a file that exports a `Command`, and a line here. */
export const COMMANDS: readonly Command[] = [serve, doctor, exportModel, keys];
