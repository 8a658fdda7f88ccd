import { spawn } from 'node:child_process';

import type { Command } from 'commander';

import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { findTrainedModel } from './find-model.ts';

/** Programs that open a link in the user's browser, by platform. */
const OPENERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  linux: ['xdg-open'],
  win32: ['explorer.exe'],
};

/** `trainyard open`: the dashboard, signed in. */
export function openCommand(): Command {
  const command = newCommand('open', 'open the dashboard in a browser, signed in')
    .description(
      'Prints a sign-in link with the rights of the key and, in a terminal, opens it. The link works once, within 15 minutes. With a model it ' +
        'also prints the address of the model page.',
    )
    .argument('[MODEL]', 'a name or an id')
    .option('--print', 'print the link without opening it');
  withExamples(command, ['trainyard open', 'trainyard open demo/short-answers --print']);
  return addServiceOptions(command, '{"url", "expires_at", "model_url"}').action(
    async (name: string | undefined, options: ServiceOptions & JsonOption & { print?: true }) => {
      const client = serviceClient(options);
      const root = client.baseUrl.replace(/\/v1$/, '');
      const modelUrl = name === undefined ? null : modelPage(root, (await findTrainedModel(client, name)).id);
      const { path, expires_at: expiresAt } = await client.sessions.createLink();
      const url = root + path;
      if (options.json === true) printJson({ url, expires_at: expiresAt, model_url: modelUrl });
      else process.stdout.write(modelUrl === null ? `${url}\n` : `${url}\n${modelUrl}\n`);
      if (options.json === undefined && options.print === undefined && process.stdout.isTTY) openInBrowser(url);
    },
  );
}

/** Page of a model on the dashboard. @param root URL of the service without `/v1` */
export function modelPage(root: string, modelId: string): string {
  return `${root}/models/${encodeURIComponent(modelId)}`;
}

/** Opens a link; without a program for it the printed one must do. */
function openInBrowser(url: string): void {
  const [program, ...args] = OPENERS[process.platform] ?? [];
  if (program === undefined) return;
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
  child.on('error', () => undefined);
  child.unref();
}
