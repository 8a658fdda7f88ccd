export { type Command, CommandError, UsageError } from './command.ts';
export { parseOptions } from './parse-options.ts';
export { runCommand } from './run-command.ts';
export { serviceConnection, SERVICE_OPTIONS } from './service-connection.ts';
