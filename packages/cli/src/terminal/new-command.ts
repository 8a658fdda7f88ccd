import { Command, type Option } from 'commander';

import { UsageError } from './command-error.ts';
import { wrapWords } from './printable.ts';

/** Width of the library's help outside of a terminal. */
const HELP_COLUMNS = 80;

/**
 * Creates a command that leaves every ending to `runCommand`: it neither prints an error nor ends the
 * process. Arguments and options cannot be empty, as from an unset variable: an empty id prefix would match
 * any id, and an empty filter would pass everything.
 *
 * @param name one word after `trainyard`; otherwise the command line up to its options, e.g.
 *   `npm run demo --`
 * @param summary one line for the list of commands
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

/** A command that refuses empty option values. */
class CommandWithValues extends Command {
  override addOption(option: Option): this {
    super.addOption(option);
    // After the parser of the value, whose error may be more specific.
    return this.on(`option:${option.name()}`, (value: unknown) => {
      if (typeof value === 'string' && value.trim() === '')
        throw new UsageError(`${option.long ?? option.flags} is empty`);
    });
  }
}

/** Adds a paragraph to the end of the help of a command, as wide as the help. @returns the command */
export function withNote(command: Command, note: string): Command {
  return command.addHelpText('after', () => `\n${wrapWords(note, process.stdout.columns ?? HELP_COLUMNS)}`);
}

/** Adds examples to the help of a command. @returns the command */
export function withExamples(command: Command, examples: readonly string[]): Command {
  return command.addHelpText('after', `\nexamples:\n${examples.map((line) => `  ${line}`).join('\n')}`);
}
