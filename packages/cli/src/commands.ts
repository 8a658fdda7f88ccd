import type { Command } from 'commander';

import { chatCommand } from './commands/chat.ts';
import { checkpointsCommand } from './commands/checkpoints.ts';
import { completionCommand } from './commands/completion.ts';
import { exportCommand } from './commands/export.ts';
import { importCommand } from './commands/import.ts';
import { jobsCommand } from './commands/jobs.ts';
import { keysCommand } from './commands/keys.ts';
import { logsCommand } from './commands/logs.ts';
import { modelsCommand } from './commands/models.ts';
import { openCommand } from './commands/open.ts';
import { sftCommand } from './commands/sft.ts';
import { usageCommand } from './commands/usage.ts';
import { backupCommand, restoreCommand } from './host/backup.ts';
import { dbCommand } from './host/db.ts';
import { doctorCommand } from './host/doctor.ts';
import { pullCommand } from './host/pull.ts';
import { serveCommand } from './host/serve.ts';

/**
 * Factories of all commands, in the order of the help. A new command is a file that exports such a function,
 * and a line here.
 */
export const COMMANDS: readonly (() => Command)[] = [
  serveCommand,
  doctorCommand,
  pullCommand,
  openCommand,
  chatCommand,
  modelsCommand,
  checkpointsCommand,
  jobsCommand,
  logsCommand,
  sftCommand,
  exportCommand,
  importCommand,
  keysCommand,
  usageCommand,
  backupCommand,
  restoreCommand,
  dbCommand,
  completionCommand,
];
