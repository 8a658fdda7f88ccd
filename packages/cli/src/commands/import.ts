import { join } from 'node:path';

import type { Command } from 'commander';

import { CommandError } from '../terminal/command-error.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { withProgress } from '../terminal/with-progress.ts';
import { interruption } from '../terminal/interrupted.ts';
import { oneLine } from '../terminal/printable.ts';
import { isModel } from './find-model.ts';
import { readModelName } from './model-name.ts';
import { openFile } from './open-file.ts';

interface ImportOptions extends ServiceOptions, JsonOption {
  readonly base?: string;
  readonly as?: string;
}

/** `trainyard import`: uploads a PEFT adapter to the service. */
export function importCommand(): Command {
  const command = newCommand('import', 'import a PEFT adapter into the service')
    .argument('<FOLDER>', 'with adapter_config.json and adapter_model.safetensors')
    .option('--base <MODEL>', 'base model that the adapter was trained on (the first one served)')
    .option(
      '--as <[[ENTITY/]PROJECT/]NAME>',
      'also create a trainable model that starts from the adapter (project imports)',
    );
  withExamples(command, ['trainyard import ./adapter', 'trainyard import ./adapter --as demo/agent']);
  return addServiceOptions(command, '{"adapter", "model"}; model is null without --as').action(
    async (folder: string, options: ImportOptions) => {
      const client = serviceClient(options);
      const signal = interruption();
      const target = options.as === undefined ? null : readModelName(options.as, '--as', 'imports');
      const files = {
        config: await openFile(join(folder, 'adapter_config.json')),
        weights: await openFile(join(folder, 'adapter_model.safetensors')),
        ...(options.base === undefined ? {} : { baseModel: options.base }),
      };
      // Check before anything is sent.
      if (target !== null && (await isModel(client, target)))
        throw new CommandError(
          `the model ${target.project}/${target.name} already exists; choose another name for --as`,
        );
      const adapter = await withProgress(`importing ${folder}`, () => client.adapters.import(files, { signal }));
      const model =
        target === null
          ? null
          : await client.models.create({
              ...target,
              base_model: adapter.base_model,
              lora: { init_from: adapter.name },
            });
      if (options.json === true) {
        printJson({ adapter, model });
        return;
      }
      process.stdout.write(`imported ${oneLine(adapter.name)}\n`);
      const name = model === null ? adapter.name : `${model.entity}/${model.project}/${model.name}`;
      process.stdout.write(`talk with it: trainyard chat ${oneLine(name)}\n`);
    },
  );
}
