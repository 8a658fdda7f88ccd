import { Command } from 'commander';

/**
 * A command that leaves every ending to `runCommand`: it neither prints an error nor ends the process.
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
    .exitOverride();
}

/** Command lines below the help of a command. @returns the command */
export function withExamples(command: Command, examples: readonly string[]): Command {
  return command.addHelpText('after', `\nexamples:\n${examples.map((line) => `  ${line}`).join('\n')}`);
}
