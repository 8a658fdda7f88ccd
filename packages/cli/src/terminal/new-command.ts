import { Command, type Option } from 'commander';

import { UsageError } from './command-error.ts';

/**
 * A command that leaves every ending to `runCommand`: it neither prints an error nor ends the process. No argument and no option of it is empty, as that of a
 * variable is which is not set: an id that begins with nothing would be any, and a filter by nothing lets all through.
 *
 * @param name one word below `trainyard`; otherwise the command line up to its options, e.g. `npm run demo --`
 * @param summary one line of the list of commands
 */
export function newCommand(name: string, summary: string): Command {
  return new CommandWithValues(name)
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

/** A command whose options take nothing that is empty. */
class CommandWithValues extends Command {
  override addOption(option: Option): this {
    super.addOption(option);
    // Behind what reads the value: that may say more of it.
    return this.on(`option:${option.name()}`, (value: unknown) => {
      if (typeof value === 'string' && value.trim() === '')
        throw new UsageError(`${option.long ?? option.flags} is empty`);
    });
  }
}

/** Command lines below the help of a command. @returns the command */
export function withExamples(command: Command, examples: readonly string[]): Command {
  return command.addHelpText('after', `\nexamples:\n${examples.map((line) => `  ${line}`).join('\n')}`);
}
