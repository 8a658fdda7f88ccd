import { SERVICE_VERSION } from '@trainyard/server/settings';
import type { Command } from 'commander';

import { COMMANDS } from './commands.ts';
import { newCommand } from './terminal/new-command.ts';
import { runCommand } from './terminal/run-command.ts';

/** The `trainyard` command. @param args arguments after its name @returns the exit code */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  return await runCommand(program(), args.length === 0 ? ['--help'] : args);
}

function program(): Command {
  const trainyard = newCommand('trainyard', 'the command line of Trainyard')
    .version(SERVICE_VERSION, '-v, --version', 'print the version')
    .helpCommand('help [command]', 'print the help of a command')
    // A command's options belong to it, even if the program has one of the same name.
    .enablePositionalOptions()
    .addHelpText(
      'after',
      '\n"trainyard COMMAND --help" lists the options of a command.\n' +
        'Exit codes: 0 done, 1 failed, 2 wrong command line or setting,\n' +
        '3 service not reachable, 130 interrupted.',
    );
  for (const make of COMMANDS) trainyard.addCommand(make());
  return trainyard;
}
