import { TrainyardConnectionError } from '@trainyard/sdk';
import { ServerError } from '@trainyard/server';

import { type Command, CommandError, EXIT_CODES, UsageError } from './command.ts';

/** Set to anything, it has the stack of an error printed too. */
const STACK_VARIABLE = 'TRAINYARD_STACK';

/**
 * Runs one command and turns whatever it throws into one line for people and an exit code.
 *
 * @param invocation how the command was called, e.g. `trainyard export`; pointers to the help begin with it
 */
export async function runCommand(command: Command, args: readonly string[], invocation: string): Promise<number> {
  if (asksForHelp(args)) {
    process.stdout.write(command.help);
    return EXIT_CODES.done;
  }
  try {
    return await command.run(args);
  } catch (error) {
    process.stderr.write(`trainyard: ${messageOf(error)}\n`);
    if (error instanceof UsageError) process.stderr.write(`see "${invocation} --help"\n`);
    if (process.env[STACK_VARIABLE]) process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    return exitCodeOf(error);
  }
}

/** Before `--`, behind which everything is a value. */
function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end < 0 ? args : args.slice(0, end)).some((arg) => arg === '--help' || arg === '-h');
}

function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return EXIT_CODES.usage;
  if (error instanceof ServerError && error.code === 'server.config_invalid') return EXIT_CODES.usage;
  return error instanceof TrainyardConnectionError ? EXIT_CODES.unreachable : EXIT_CODES.failed;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof TrainyardConnectionError) return `${error.message}; "npm start" starts a service`;
  return isForPeople(error) ? error.message : `${error.message} (unexpected; ${STACK_VARIABLE}=1 shows where)`;
}

/** Errors of the packages below carry a stable code or a message that was written for whoever runs the command; anything else is a bug. */
function isForPeople(error: Error): boolean {
  if (error instanceof UsageError || error instanceof CommandError) return true;
  if (error.name.startsWith('Trainyard') || error.name.endsWith('FailedError')) return true;
  return 'code' in error && typeof error.code === 'string' && (error.code.includes('.') || 'syscall' in error);
}
