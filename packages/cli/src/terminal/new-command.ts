import { Command } from 'commander';

import { UsageError } from './command-error.ts';

/**
 * A command that leaves every ending to `runCommand`: it neither prints an error nor ends the process. No argument of it is empty, as that of a variable is which is not
 * set: an id that begins with nothing would be any.
 *
 * @param name one word below `trainyard`; otherwise the command line up to its options, e.g. `npm run demo --`
 * @param summary one line of the list of commands
 */
export function newCommand(name: string, summary: string): Command {
  return new Command(name)
    .summary(summary)
    .helpOption('-h, --help', 'print this help')
    .configureHelp({ styleTitle: (title) => title.toLowerCase() })
    .configureOutput({ writeErr: () => undefined })
    .exitOverride()
    .hook('preAction', (_, { args, registeredArguments }) => {
      const empty = args.findIndex((text) => text.trim() === '');
      if (empty >= 0) throw new UsageError(`the argument ${registeredArguments[empty]?.name() ?? empty} is empty`);
    });
}

/** Command lines below the help of a command. @returns the command */
export function withExamples(command: Command, examples: readonly string[]): Command {
  return command.addHelpText('after', `\nexamples:\n${examples.map((line) => `  ${line}`).join('\n')}`);
}
