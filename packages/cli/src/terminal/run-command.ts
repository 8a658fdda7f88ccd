import { TrainyardApiError, TrainyardConnectionError } from '@trainyard/sdk';
import { ServerError } from '@trainyard/server/settings';
import { type Command, CommanderError } from 'commander';

import { isNothingListening } from './attentive-client.ts';
import { CommandError, EXIT_CODES, InterruptedError, ReportedError, UsageError } from './command-error.ts';
import { oneLine, wrapWords } from './printable.ts';
import { widthOf } from './table.ts';
import { START } from './this-program.ts';

/** Environment variable that adds the stack to a printed error if it is set. */
const STACK_VARIABLE = 'TRAINYARD_STACK';

/**
 * Runs a command from `newCommand`, and converts any error into one line for people and an exit code.
 *
 * @param args arguments after the command's name
 */
export async function runCommand(command: Command, args: readonly string[]): Promise<number> {
  try {
    await command.parseAsync(args, { from: 'user' });
    return EXIT_CODES.done;
  } catch (thrown) {
    // The help or the version was printed.
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return EXIT_CODES.done;
    if (thrown instanceof ReportedError) return EXIT_CODES.failed;
    const named = namedCommand(command, args);
    const error = thrown instanceof CommanderError ? usageErrorOf(thrown, named, args) : thrown;
    process.stderr.write(`${wrapWords(`trainyard: ${messageOf(error)}`, widthOf(process.stderr))}\n`);
    if (error instanceof UsageError) process.stderr.write(`see "${invocationOf(named)} --help"\n`);
    if (process.env[STACK_VARIABLE]) process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    return exitCodeOf(error);
  }
}

/** Command named by the first words, as deep as possible. */
function namedCommand(command: Command, [word, ...rest]: readonly string[]): Command {
  const below = command.commands.find((known) => known.name() === word);
  return below === undefined ? command : namedCommand(below, rest);
}

/** Invocation of a command, from the program's name on. */
function invocationOf(command: Command): string {
  return command.parent === null ? command.name() : `${invocationOf(command.parent)} ${command.name()}`;
}

function usageErrorOf(error: CommanderError, command: Command, args: readonly string[]): UsageError {
  // A missing command; the library would print the whole help.
  const isMissing = error.code === 'commander.help';
  const names = command.commands.map((below) => below.name()).join(', ');
  const [, unknown] = isMissing && args[0] === 'help' ? args : [];
  const needed = unknown === undefined ? 'missing command' : `unknown command ${unknown}`;
  const message = isMissing ? `${needed}: ${names}` : error.message.replace(/^error: /, '').replaceAll('\n', ' ');
  return new UsageError(message, { cause: error });
}

function exitCodeOf(error: unknown): number {
  if (error instanceof InterruptedError) return error.exitCode;
  if (error instanceof UsageError) return EXIT_CODES.usage;
  if (error instanceof ServerError && error.code === 'server.config_invalid') return EXIT_CODES.usage;
  return error instanceof TrainyardConnectionError ? EXIT_CODES.unreachable : EXIT_CODES.failed;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof TrainyardConnectionError)
    return isNothingListening(error) ? `${error.message}; "${START}" starts a service` : error.message;
  // The message may be a page of another server.
  if (error instanceof TrainyardApiError) return oneLine(error.message) + nextStepOf(error);
  return isForPeople(error) ? error.message : `${error.message} (unexpected; set ${STACK_VARIABLE}=1 to see the stack)`;
}

/** Next step after a refusal of the service; the error of a refused value contains it already. */
function nextStepOf({ status, code, param, requestId }: TrainyardApiError): string {
  if (status === 401) return '; pass another key with --api-key or TRAINYARD_API_KEY';
  if (status === 403 && code === 'request.forbidden')
    return '; create a key with other scopes with "trainyard keys create"';
  // All other missing objects have a name.
  if (code === 'request.not_found' && param === null) return '; check that --url ends in /v1';
  if (code === 'request.unknown_model') return '; "trainyard models list" lists the models trained here';
  if (status >= 500 && requestId !== null) return ` (request ${requestId} in the log of the service)`;
  return '';
}

/** True for errors with a stable code or a message for the user; anything else is a bug. */
function isForPeople(error: Error): boolean {
  if (error instanceof UsageError || error instanceof CommandError || error instanceof InterruptedError) return true;
  if (error.name.endsWith('FailedError')) return true;
  return 'code' in error && typeof error.code === 'string' && (error.code.includes('.') || 'syscall' in error);
}
