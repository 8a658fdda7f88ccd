export { COMMANDS } from './commands.ts';
export { modelPage } from './commands/open.ts';
export { commandLinePage } from './terminal/command-line-page.ts';
export { UsageError } from './terminal/command-error.ts';
export { newCommand } from './terminal/new-command.ts';
export { runCommand } from './terminal/run-command.ts';
export {
  addServiceOptions,
  serviceConnection,
  serviceUrlAtHand,
  type ServiceOptions,
} from './terminal/service-connection.ts';
