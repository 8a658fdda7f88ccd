import type { Command } from 'commander';

import { commandLinePage } from '../terminal/command-line-page.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import type { JsonOption } from '../terminal/service-connection.ts';
import { addSettingOptions, type SettingOptions, settingsOf } from './settings.ts';

/**
 * `trainyard serve`: runs until SIGINT or SIGTERM, or until its terminal ends; a second signal ends it at
 * once.
 */
export function serveCommand(): Command {
  const command = newCommand('serve', 'start the service').option(
    '--json',
    'one line of JSON when it is ready: {"url", "dashboard_url", "sign_in_url", "key_file", "models"}',
  );
  withExamples(command, ['trainyard serve', 'trainyard serve --port 9000 --model org/name=./model.gguf']);
  return addSettingOptions(command).action(async ({ json, ...options }: SettingOptions & JsonOption) => {
    const config = settingsOf(options);
    const { runService } = await import('./run-service.ts');
    // The parent is the program with all commands.
    const commandLine = () => commandLinePage(command.parent?.commands ?? []);
    await runService(config, json === true, commandLine);
  });
}
