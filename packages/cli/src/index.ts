export { COMMANDS } from './commands.ts';
export { UsageError } from './command-error.ts';
export { newCommand } from './new-command.ts';
export { runCommand } from './run-command.ts';
export { addServiceOptions, serviceConnection, type ServiceOptions } from './service-connection.ts';
