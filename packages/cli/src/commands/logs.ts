import type { ServiceEventObject } from '@trainyard/sdk';
import type { Command } from 'commander';

import { UsageError } from '../terminal/command-error.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJsonLine } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { cutTo, oneLine } from '../terminal/printable.ts';
import { widthOf } from '../terminal/table.ts';
import { findTrainedModel, fullNameOf, modelNames } from './find-model.ts';

interface LogOptions extends ServiceOptions, JsonOption {
  readonly model?: string;
  readonly follow?: true;
  readonly limit: number;
}

/** Data of an event to show in its line. */
const TOLD = [
  'loss',
  'policy_loss',
  'reward',
  'message',
  'error_message',
  'step',
  'steps',
  'split',
  'name',
  'kind',
  'status',
];

/** `trainyard logs`: events of models and jobs. */
export function logsCommand(): Command {
  const command = newCommand('logs', 'show events of models and jobs; -f follows')
    .description(
      'Prints the events of models and jobs, at most of the last week, oldest first. For the log of the service itself see the output of "trainyard serve".',
    )
    .option('--model <MODEL>', 'only events of this model')
    .option('-f, --follow', 'continue with new events until Ctrl-C')
    .option('--limit <N>', 'number of past events, the newest; with --follow, 0 shows only new events', limitOf, 100);
  withExamples(command, [
    'trainyard logs',
    'trainyard logs --follow --model demo/short-answers',
    'trainyard logs --json | jq .type',
  ]);
  return addServiceOptions(command, 'the events, one per line').action(async (options: LogOptions) => {
    const client = serviceClient(options);
    const names = await modelNames(client);
    const query = options.model === undefined ? {} : { model_id: (await findTrainedModel(client, options.model)).id };
    const show = (event: ServiceEventObject) => {
      if (options.json === true) printJsonLine(event);
      else process.stdout.write(`${lineOf(event, names)}\n`);
    };
    const newest: ServiceEventObject[] = [];
    let last: string | undefined;
    for await (const event of client.events.list({ ...query, limit: 1000 })) {
      last = event.id;
      newest.push(event);
      if (newest.length > options.limit) newest.shift();
    }
    for (const event of newest) show(event);
    if (options.follow === undefined) return;
    for await (const event of client.events.watch(query, { after: last ?? '0' })) {
      if (event.type === 'model_created' && event.model_id !== null)
        await client.models.retrieve(event.model_id).then(
          (model) => names.set(model.id, fullNameOf(model)),
          () => undefined, // deleted meanwhile
        );
      show(event);
    }
  });
}

function lineOf(event: ServiceEventObject, names: ReadonlyMap<string, string>): string {
  const time = new Date(event.created_at * 1000).toISOString().slice(0, 19).replace('T', ' ');
  const { model_id: modelId, job_id: jobId } = event;
  const parts = [
    `${time}Z`,
    event.type.padEnd(19),
    modelId === null ? '' : (names.get(modelId) ?? modelId.slice(0, 8)),
    jobId === null ? '' : `job ${jobId.slice(0, 8)}`,
    ...TOLD.flatMap((name) => {
      const value = event.data[name];
      return value === undefined || value === null ? [] : [`${name} ${textOf(value)}`];
    }),
  ];
  const line = oneLine(parts.filter((part) => part !== '').join('  '));
  const width = widthOf(process.stdout);
  return cutTo(line, width);
}

function textOf(value: unknown): string {
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : value.toPrecision(4);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function limitOf(text: string): number {
  const limit = Number(text);
  if (Number.isSafeInteger(limit) && limit >= 0) return limit;
  throw new UsageError(`--limit must be a whole number from 0, got ${JSON.stringify(text)}`);
}
