import { formatMegabytes } from '@trainyard/protocol/fields';
import type { CheckpointObject, ModelDetailsObject } from '@trainyard/sdk';
import { type Command, InvalidArgumentError } from 'commander';

import { CommandError } from '../terminal/command-error.ts';
import { confirm } from '../terminal/confirm.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { counted, oneLine } from '../terminal/printable.ts';
import { printJson } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { tableFor } from '../terminal/table.ts';
import { timeOf } from '../terminal/times.ts';
import { findTrainedModel, fullNameOf, MODEL_HELP } from './find-model.ts';

type CheckpointOptions = ServiceOptions & JsonOption;

/** `trainyard checkpoints`: the steps of a model, their sizes, and the kept ones. */
export function checkpointsCommand(): Command {
  return newCommand('checkpoints', 'list, delete and keep checkpoints of a model')
    .addCommand(listCommand())
    .addCommand(deleteCommand())
    .addCommand(keepCommand());
}

function listCommand(): Command {
  const command = newCommand('list', 'list checkpoints by step, with sizes and why each is kept')
    .argument('<MODEL>', MODEL_HELP)
    .option('--removed', 'list checkpoints removed by `--keep-checkpoints` that `keep` can restore');
  withExamples(command, [
    'trainyard checkpoints list demo/short-answers',
    "trainyard checkpoints list demo/short-answers --json | jq 'map(.size_bytes + .optimizer_bytes) | add'",
  ]);
  return addServiceOptions(command, 'an array of checkpoints, as the API has them').action(
    async (name: string, { removed, ...options }: CheckpointOptions & { removed?: true }) => {
      const client = serviceClient(options);
      const model = await findTrainedModel(client, name);
      const query = { limit: 100, ...(removed === undefined ? {} : { removed }) };
      const checkpoints = await client.checkpoints.list(model.id, query).toArray();
      if (options.json === true) printJson(checkpoints);
      else if (checkpoints.length === 0)
        process.stdout.write(`${oneLine(fullNameOf(model))} has no ${removed === true ? 'removed ' : ''}checkpoints\n`);
      else process.stdout.write(tableOfCheckpoints(model, checkpoints));
    },
  );
}

function tableOfCheckpoints({ best }: ModelDetailsObject, checkpoints: readonly CheckpointObject[]): string {
  const columns = [
    { title: 'step', isNumber: true },
    { title: 'reward', isNumber: true },
    { title: 'weights', isNumber: true },
    { title: 'optimizer', isNumber: true },
    { title: 'kept for' },
  ];
  const rows = checkpoints.map((checkpoint) => [
    String(checkpoint.step),
    rewardOf(checkpoint, best?.metric ?? 'train/reward'),
    sizeOf(checkpoint.size_bytes),
    sizeOf(checkpoint.optimizer_bytes),
    keptFor(checkpoint),
  ]);
  const sum = (key: 'size_bytes' | 'optimizer_bytes'): string =>
    sizeOf(checkpoints.reduce((total, checkpoint) => total + (checkpoint[key] ?? 0), 0));
  const total = ['sum', '', sum('size_bytes'), sum('optimizer_bytes'), ''];
  return tableFor(process.stdout, columns, [...rows, total]);
}

function rewardOf({ metrics }: CheckpointObject, metric: string): string {
  return metrics[metric]?.toPrecision(4) ?? '-';
}

function keptFor({ kept_for: reasons, is_marked: isMarked, removed_at: removedAt }: CheckpointObject): string {
  if (removedAt !== null) return `removed ${timeOf(removedAt)}`;
  if (reasons === null) return isMarked ? 'marked' : 'all are kept';
  return reasons.length === 0 ? '- (removed soon)' : reasons.join(', ');
}

function sizeOf(bytes: number | null): string {
  return bytes === null ? '-' : formatMegabytes(bytes);
}

function deleteCommand(): Command {
  const command = newCommand('delete', 'delete checkpoints and their files for good')
    .argument('<MODEL>', MODEL_HELP)
    .argument('<STEP...>', 'their steps', addStep)
    .option('-y, --yes', 'do not ask for confirmation; required without a terminal');
  withExamples(command, ['trainyard checkpoints delete demo/short-answers 3 4 --yes']);
  return addServiceOptions(command, 'the response of the API').action(
    async (name: string, steps: number[], { yes, ...options }: CheckpointOptions & { yes?: true }) => {
      const client = serviceClient(options);
      const model = await findTrainedModel(client, name);
      const what = `${counted(steps.length, 'checkpoint')} of ${oneLine(fullNameOf(model))} (${stepsOf(steps)})`;
      if (yes === undefined) await confirm(`delete ${what}?`);
      const deleted = await client.checkpoints.delete(model.id, steps);
      if (options.json === true) printJson(deleted);
      else process.stdout.write(`deleted ${counted(deleted.deleted_count, 'checkpoint')}\n`);
      refuseUnknown(model, deleted.not_found_steps);
    },
  );
}

function keepCommand(): Command {
  const command = newCommand('keep', 'mark checkpoints to keep, or restore removed ones')
    .argument('<MODEL>', MODEL_HELP)
    .argument('<STEP...>', 'their steps', addStep)
    .option('--undo', 'remove the marks; `--keep-checkpoints` applies again');
  withExamples(command, [
    'trainyard checkpoints keep demo/short-answers 12',
    'trainyard checkpoints keep demo/short-answers 12 --undo',
  ]);
  return addServiceOptions(command, 'the response of the API').action(
    async (name: string, steps: number[], { undo, ...options }: CheckpointOptions & { undo?: true }) => {
      const client = serviceClient(options);
      const model = await findTrainedModel(client, name);
      const kept = await client.checkpoints.keep(model.id, steps, undo === undefined);
      if (options.json === true) printJson(kept);
      else {
        if (kept.restored_steps.length > 0) process.stdout.write(`restored ${stepsOf(kept.restored_steps)}\n`);
        if (kept.steps.length > 0)
          process.stdout.write(`${undo === true ? 'no longer marked' : 'marked'}: ${stepsOf(kept.steps)}\n`);
      }
      refuseUnknown(model, kept.not_found_steps);
    },
  );
}

function refuseUnknown(model: ModelDetailsObject, steps: readonly number[]): void {
  if (steps.length === 0) return;
  const name = oneLine(fullNameOf(model));
  throw new CommandError(`${name} has no ${stepsOf(steps)}; "trainyard checkpoints list ${name}" lists its steps`);
}

function stepsOf(steps: readonly number[]): string {
  return `${steps.length === 1 ? 'step' : 'steps'} ${steps.join(', ')}`;
}

function addStep(text: string, steps: number[] | undefined): number[] {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError(`A step is a whole number from 0, got "${text}".`);
  return [...(Array.isArray(steps) ? steps : []), Number(text)];
}
