import type { TrainingJobObject, TrainingJobPageQuery, Trainyard } from '@trainyard/sdk';
import { type Command, Option } from 'commander';

import { CommandError, UsageError } from '../terminal/command-error.ts';
import { interruption } from '../terminal/interrupted.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { type CellColour, type Column, tableFor } from '../terminal/table.ts';
import { agoOf, durationOf } from '../terminal/times.ts';
import { findTrainedModel, modelNames } from './find-model.ts';
import { watchJob } from './watch-job.ts';

type JobOptions = ServiceOptions & JsonOption;

interface ListOptions extends JobOptions {
  readonly model?: string;
  readonly project?: string;
  readonly status?: NonNullable<TrainingJobPageQuery['status']>;
  readonly kind?: NonNullable<TrainingJobPageQuery['kind']>;
  readonly limit: number;
}

const STATUSES = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const;
/** Shown characters of an id, enough to name a job. */
const SHORT_ID_CHARACTERS = 8;
/** Number of newest jobs searched for the start of an id. */
const MAX_SEARCHED = 1000;

/** `trainyard jobs`: running, ended and queued training jobs. */
export function jobsCommand(): Command {
  return newCommand('jobs', 'list, watch, cancel, pause and resume training jobs')
    .addCommand(listCommand())
    .addCommand(watchCommand())
    .addCommand(controlCommand('cancel', 'cancel a job now; its model stays at its last step', 'cancelled'))
    .addCommand(controlCommand('pause', 'pause a job, and with it the later jobs of its model', 'paused'))
    .addCommand(controlCommand('resume', 'resume a paused job after its last gradient step', 'resumed'));
}

function listCommand(): Command {
  const command = newCommand('list', 'list jobs, newest first')
    .option('--model <MODEL>', 'only jobs of this model')
    .option('--project <NAME>', 'only jobs of models of this project')
    .addOption(new Option('--status <STATUS>', 'only jobs with this status').choices(STATUSES))
    .addOption(new Option('--kind <KIND>', 'only jobs of this kind').choices(['rl', 'sft']))
    .option('--limit <N>', 'maximum number of jobs to list', limitOf, 20);
  withExamples(command, ['trainyard jobs list --status running', "trainyard jobs list --json | jq '.[0].warnings'"]);
  return addServiceOptions(command, 'an array of jobs, as in the API').action(async (options: ListOptions) => {
    const client = serviceClient(options);
    const { model, project, status, kind, limit } = options;
    const query: TrainingJobPageQuery = {
      order: 'desc',
      limit: Math.min(limit, 100),
      ...(model === undefined ? {} : { model_id: (await findTrainedModel(client, model)).id }),
      ...(project === undefined ? {} : { project }),
      ...(status === undefined ? {} : { status }),
      ...(kind === undefined ? {} : { kind }),
    };
    const jobs = await client.trainingJobs.list(query).toArray(limit);
    if (options.json === true) printJson(jobs);
    else if (jobs.length === 0) process.stdout.write('no such job\n');
    else process.stdout.write(jobTable(jobs, await modelNames(client), client.now()));
  });
}

function jobTable(jobs: readonly TrainingJobObject[], names: ReadonlyMap<string, string>, nowMs: number): string {
  const columns: Column[] = [
    { title: 'job', isWhole: true },
    { title: 'kind', isOptional: true },
    { title: 'status', isWhole: true, colour: colourOf },
    { title: 'warnings', isNumber: true, isOptional: true },
    { title: 'model' },
    { title: 'steps', isNumber: true },
    { title: 'took', isNumber: true, isWhole: true },
    { title: 'submitted', isWhole: true },
  ];
  const known = jobs.flatMap(({ model_id: id }) => names.get(id) ?? []);
  const entities = new Set(known.map((name) => name.split('/')[0]));
  const nameOf = (id: string) => {
    const name = names.get(id) ?? '(deleted)';
    return process.stdout.isTTY && entities.size === 1 ? name.replace(/^[^/]*\//, '') : name;
  };
  const rows = jobs.map((job) => [
    job.id.slice(0, SHORT_ID_CHARACTERS),
    job.kind,
    job.is_paused ? 'paused' : job.status,
    job.warnings.length === 0 ? '' : String(job.warnings.length),
    nameOf(job.model_id),
    String(job.num_gradient_steps_done),
    tookOf(job, nowMs),
    agoOf(job.created_at, nowMs),
  ]);
  return tableFor(process.stdout, columns, rows);
}

function colourOf(status: string): CellColour | null {
  if (status === 'failed') return 'red';
  if (status === 'paused') return 'yellow';
  if (status === 'running') return 'cyan';
  return status === 'succeeded' ? 'green' : 'dim';
}

function tookOf({ started_at: startedAt, finished_at: ended }: TrainingJobObject, nowMs: number): string {
  if (startedAt === null) return '-';
  return durationOf((ended ?? nowMs / 1000) - startedAt);
}

function watchCommand(): Command {
  const command = newCommand('watch', 'follow a job to its end')
    .description('Follows a job to its end. Exits with code 1 if the job fails. Ctrl-C does not stop the job.')
    .argument('[JOB]', 'id, or its first characters (default: the oldest job that has not ended)');
  withExamples(command, ['trainyard jobs watch', 'trainyard jobs watch 3f2a --json']);
  return addServiceOptions(command, 'the events of the job, one per line').action(
    async (start: string | undefined, options: JobOptions) => {
      const client = serviceClient(options);
      const job = start === undefined ? await liveJob(client) : await findJob(client, start);
      await watchJob(client, job, { isJson: options.json === true, signal: interruption() });
    },
  );
}

function controlCommand(verb: 'cancel' | 'pause' | 'resume', summary: string, done: string): Command {
  const command = newCommand(verb, summary).argument('<JOB>', 'id, or its first characters');
  withExamples(command, [`trainyard jobs ${verb} 3f2a`]);
  return addServiceOptions(command, 'the job').action(async (start: string, options: JobOptions) => {
    const client = serviceClient(options);
    const { id } = await findJob(client, start);
    const job = await client.trainingJobs[verb](id);
    if (options.json === true) printJson(job);
    else process.stdout.write(`${done} the job ${job.id}\n`);
  });
}

async function liveJob(client: Trainyard): Promise<TrainingJobObject> {
  const [first] = (await client.trainingJobs.queue()).data;
  if (first === undefined)
    throw new CommandError('no job is queued or running; "trainyard jobs list" lists those that have ended');
  return await client.trainingJobs.retrieve(first.id);
}

/** @throws {CommandError} if no job id starts so, or several do */
async function findJob(client: Trainyard, start: string): Promise<TrainingJobObject> {
  const recent = await client.trainingJobs.list({ order: 'desc', limit: 100 }).toArray(MAX_SEARCHED);
  const found = recent.filter(({ id }) => id.startsWith(start));
  const [job] = found;
  if (job === undefined) throw new CommandError(`no job ${start}; "trainyard jobs list" lists them`);
  if (found.length > 1 && job.id !== start)
    throw new CommandError(`${found.length} jobs start with ${start}; give more characters of the id`);
  return found.find(({ id }) => id === start) ?? job;
}

function limitOf(text: string): number {
  const limit = Number(text);
  if (Number.isSafeInteger(limit) && limit >= 1) return limit;
  throw new UsageError(`--limit must be a whole number from 1, got ${JSON.stringify(text)}`);
}
