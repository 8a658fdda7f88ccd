import type { CheckpointObject, ModelDetailsObject } from '@trainyard/sdk';
import type { Command } from 'commander';

import { UsageError } from '../terminal/command-error.ts';
import { confirm } from '../terminal/confirm.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { counted, oneLine } from '../terminal/printable.ts';
import { type Column, listingOf, tableFor, widthOf } from '../terminal/table.ts';
import { npmScript } from '../terminal/this-program.ts';
import { agoOf, timeOf } from '../terminal/times.ts';
import { basesCommand } from './bases.ts';
import { findTrainedModel, fullNameOf, MODEL_HELP } from './find-model.ts';

type ModelOptions = ServiceOptions & JsonOption;
type ListOptions = ModelOptions & { project?: string; tag: readonly string[]; archived?: true };
type LabelOptions = ModelOptions & {
  tag: readonly string[];
  untag: readonly string[];
  notes?: string | false;
  archive?: true;
  restore?: true;
};

/** Metrics in the row of a checkpoint, in this order, if present. */
const SHOWN_METRICS = [
  'val/reward',
  'train/reward',
  'train/loss',
  'train/policy_loss',
  'train/entropy',
  'train/kl_base',
];

/** `trainyard models`: trained models of the service, and files of base models. */
export function modelsCommand(): Command {
  return newCommand('models', 'list, show, label and delete trained models; list and remove files of base models')
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(labelCommand())
    .addCommand(deleteCommand())
    .addCommand(basesCommand());
}

const NO_MODEL_HINT =
  npmScript('demo') === null
    ? 'see "trainyard sft --help" for one way to train a model'
    : `"${npmScript('demo')}" trains one; for another way see "trainyard sft --help"`;

function listCommand(): Command {
  const command = newCommand('list', 'list trained models, newest first')
    .option('--project <NAME>', 'only these')
    .option('--tag <TAG>', 'only models with this tag; repeat it for all of several', addText, [])
    .option('--archived', 'archived models instead');
  withExamples(command, [
    'trainyard models list',
    'trainyard models list --tag sweep-1',
    "trainyard models list --json | jq -r '.[].name'",
  ]);
  return addServiceOptions(command, 'an array of models, as in the API').action(
    async ({ project, tag, archived, ...options }: ListOptions) => {
      const client = serviceClient(options);
      const filter = {
        ...(project === undefined ? {} : { project }),
        ...(tag.length === 0 ? {} : { tag: [...tag] }),
        ...(archived === undefined ? {} : { archived: 'only' as const }),
      };
      const models = await client.models.list({ order: 'desc', limit: 100, ...filter }).toArray();
      if (options.json === true) printJson(models);
      else if (models.length === 0 && Object.keys(filter).length > 0) process.stdout.write('no such model\n');
      else if (models.length === 0) process.stdout.write(`no model is trained here yet; ${NO_MODEL_HINT}\n`);
      else process.stdout.write(modelTable(models, client.now()));
    },
  );
}

function modelTable(models: readonly ModelDetailsObject[], nowMs: number): string {
  // The entity is said only if it distinguishes models, or to a program that reads the list.
  const isShort = process.stdout.isTTY && new Set(models.map(({ entity }) => entity)).size === 1;
  const hasTags = models.some(({ tags }) => tags.length > 0);
  const columns: Column[] = [
    { title: 'model' },
    { title: 'step', isNumber: true },
    { title: 'reward', isNumber: true },
    { title: 'best', isNumber: true },
    { title: 'jobs', isOptional: true, colour: (cell) => (cell === '-' ? 'dim' : 'cyan') },
    { title: 'base model', isOptional: true },
    ...(hasTags ? [{ title: 'tags' }] : []),
    { title: 'made', isWhole: true },
  ];
  const rows = models.map((model) => [
    isShort ? `${model.project}/${model.name}` : fullNameOf(model),
    model.latest_step === null ? '-' : String(model.latest_step),
    numberOf(model.reward?.value),
    bestOf(model),
    liveJobs(model),
    model.base_model,
    ...(hasTags ? [model.tags.length === 0 ? '-' : model.tags.map(oneLine).join(', ')] : []),
    agoOf(model.created_at, nowMs),
  ]);
  return tableFor(process.stdout, columns, rows);
}

function bestOf({ best }: ModelDetailsObject): string {
  return best === null ? '-' : `step ${best.step}`;
}

function liveJobs({ live_jobs: jobs }: ModelDetailsObject): string {
  const parts = Object.entries(jobs).filter(([, count]) => count > 0);
  return parts.length === 0 ? '-' : parts.map(([state, count]) => `${count} ${state}`).join(', ');
}

function showCommand(): Command {
  const command = newCommand('show', 'show a model and its checkpoints').argument('<MODEL>', MODEL_HELP);
  withExamples(command, ['trainyard models show demo/short-answers']);
  return addServiceOptions(command, '{"model", "checkpoints"}').action(async (name: string, options: ModelOptions) => {
    const client = serviceClient(options);
    const model = await findTrainedModel(client, name);
    const checkpoints = await client.checkpoints.list(model.id, { limit: 100 }).toArray();
    if (options.json === true) printJson({ model, checkpoints });
    else process.stdout.write(details(model) + checkpointTable(model, checkpoints));
  });
}

function labelCommand(): Command {
  const command = newCommand('label', 'change tags, notes and archive of a model')
    .description(
      'Changes tags, notes and archive of a model. An archived model is in no list; it is sampled from as before, and takes no training jobs until it is restored.',
    )
    .argument('<MODEL>', MODEL_HELP)
    .option('--tag <TAG>', 'add a tag; repeat it for several', addText, [])
    .option('--untag <TAG>', 'remove a tag; repeat it for several', addText, [])
    .option('--notes <TEXT>', 'replace the notes')
    .option('--no-notes', 'remove the notes')
    .option('--archive', 'move the model to the archive')
    .option('--restore', 'return it to the lists');
  withExamples(command, [
    'trainyard models label demo/rate-1e-3-seed-1 --tag sweep-1',
    'trainyard models label demo/rate-1e-3-seed-1 --archive',
  ]);
  return addServiceOptions(command, 'the model, as in the API').action(
    async (name: string, { tag, untag, notes, archive, restore, ...options }: LabelOptions) => {
      if (archive !== undefined && restore !== undefined)
        throw new UsageError('--archive and --restore exclude each other');
      const change = {
        ...(tag.length === 0 ? {} : { add_tags: [...tag] }),
        ...(untag.length === 0 ? {} : { remove_tags: [...untag] }),
        ...(notes === undefined ? {} : { notes: notes === false ? '' : notes }),
        ...(archive === undefined && restore === undefined ? {} : { is_archived: archive === true }),
      };
      if (Object.keys(change).length === 0)
        throw new UsageError('nothing to change: give --tag, --untag, --notes, --no-notes, --archive or --restore');
      const client = serviceClient(options);
      const model = await client.models.update((await findTrainedModel(client, name)).id, change);
      if (options.json === true) printJson(model);
      else process.stdout.write(details(model));
    },
  );
}

const addText = (text: string, texts: readonly string[]): readonly string[] => [...texts, text];

function adapterText({
  rank,
  alpha,
  targets,
  use_rslora,
  rank_pattern,
  alpha_pattern,
}: ModelDetailsObject['lora']): string {
  const own = (name: string, pattern: Readonly<Record<string, number>>): string[] =>
    Object.keys(pattern).length === 0 ? [] : [`${name} ${JSON.stringify(pattern)}`];
  return [
    `rank ${rank}`,
    `alpha ${alpha}`,
    targets.join(' '),
    ...(use_rslora ? ['use_rslora'] : []),
    ...own('rank_pattern', rank_pattern),
    ...own('alpha_pattern', alpha_pattern),
  ].join(', ');
}

function details(model: ModelDetailsObject): string {
  const { lora } = model;
  const entries: [string, string][] = [
    ['model', fullNameOf(model)],
    ['id', model.id],
    ['base model', model.is_served ? model.base_model : `${model.base_model} (not served now)`],
    ['adapter', adapterText(lora)],
    ['made', timeOf(model.created_at)],
    ['gradient steps', String(model.num_gradient_steps)],
    ['jobs', liveJobs(model)],
    ['best', model.best === null ? '-' : `step ${model.best.step}, ${model.best.metric} ${numberOf(model.best.value)}`],
  ];
  if (model.tags.length > 0) entries.push(['tags', model.tags.map(oneLine).join(', ')]);
  if (model.archived_at !== null) entries.push(['archived', timeOf(model.archived_at)]);
  if (model.notes !== '') entries.push(['notes', oneLine(model.notes)]);
  if (model.tracked_run?.url) entries.push(['tracked at', model.tracked_run.url]);
  return `${listingOf(entries, widthOf(process.stdout))}\n`;
}

function checkpointTable({ best }: ModelDetailsObject, checkpoints: readonly CheckpointObject[]): string {
  const names = SHOWN_METRICS.filter((name) => checkpoints.some(({ metrics }) => metrics[name] !== undefined));
  const columns = [
    { title: 'step', isNumber: true },
    ...names.map((title) => ({ title, isNumber: true })),
    ...(best === null ? [] : [{ title: '' }]),
  ];
  const rows = checkpoints.map(({ step, metrics }) => [
    String(step),
    ...names.map((name) => numberOf(metrics[name])),
    ...(best === null ? [] : [best.step === step ? 'best' : '']),
  ]);
  return tableFor(process.stdout, columns, rows);
}

function deleteCommand(): Command {
  const command = newCommand('delete', 'delete a model with all its checkpoints')
    .argument('<MODEL>', MODEL_HELP)
    .option('-y, --yes', 'do not ask for confirmation; required without a terminal');
  withExamples(command, [
    'trainyard models delete demo/short-answers',
    'trainyard models delete demo/short-answers --yes',
  ]);
  return addServiceOptions(command, 'the response of the API').action(
    async (name: string, { yes, ...options }: ModelOptions & { yes?: true }) => {
      const client = serviceClient(options);
      const model = await findTrainedModel(client, name);
      if (yes === undefined) await confirmDeletion(model);
      const deleted = await client.models.delete(model.id);
      if (options.json === true) printJson(deleted);
      else
        process.stdout.write(
          `deleted ${oneLine(fullNameOf(model))} with ${counted(deleted.deleted_checkpoints, 'checkpoint')}\n`,
        );
    },
  );
}

async function confirmDeletion(model: ModelDetailsObject): Promise<void> {
  await confirm(`delete ${oneLine(fullNameOf(model))} with ${counted(model.num_checkpoints, 'checkpoint')}?`);
}

function numberOf(value: number | undefined): string {
  return value === undefined ? '-' : value.toPrecision(4);
}
