import { SERVICE_VERSION } from '@trainyard/server';

import { type Command, EXIT_CODES } from './command.ts';
import { COMMANDS } from './commands.ts';
import { runCommand } from './run-command.ts';

/** The `trainyard` command. @param args what follows its name @returns the exit code */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === '--version' || name === '-v') {
    process.stdout.write(`${SERVICE_VERSION}\n`);
    return EXIT_CODES.done;
  }
  if (name === undefined || name === '--help' || name === '-h' || (name === 'help' && rest.length === 0)) {
    process.stdout.write(overview());
    return EXIT_CODES.done;
  }
  if (name === 'help') return await runNamed(rest[0]!, ['--help']);
  return await runNamed(name, rest);
}

async function runNamed(name: string, args: readonly string[]): Promise<number> {
  const command = COMMANDS.find((known) => known.name === name);
  if (command !== undefined) return await runCommand(command, args, `trainyard ${name}`);
  process.stderr.write(`trainyard: there is no command "${name}"\n\n${overview()}`);
  return EXIT_CODES.usage;
}

function overview(): string {
  const width = Math.max(...COMMANDS.map(({ name }: Command) => name.length));
  return `usage: trainyard COMMAND [options]

commands:
${COMMANDS.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}\n`).join('')}
"trainyard COMMAND --help" lists the options of a command, "trainyard --version" prints the version.
Exit codes: 0 done, 1 failed, 2 wrong command line or setting, 3 no service was reached.
`;
}
