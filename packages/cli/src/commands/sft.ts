import { basename } from 'node:path';

import {
  type ArtifactObject,
  type Trainyard,
  TrainyardApiError,
  type WireSftConfig,
  type WireSftExperimentalConfig,
} from '@trainyard/sdk';
import type { Command } from 'commander';

import { CommandError, UsageError } from '../terminal/command-error.ts';
import { interruption } from '../terminal/interrupted.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson, printJsonLine } from '../terminal/print-json.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { withProgress } from '../terminal/with-progress.ts';
import { oneLine } from '../terminal/printable.ts';
import { isModel } from './find-model.ts';
import { readModelName } from './model-name.ts';
import { openFile } from './open-file.ts';
import { watchJob } from './watch-job.ts';

interface SftOptions extends ServiceOptions, JsonOption {
  readonly model: string;
  readonly base?: string;
  readonly epochs?: number;
  readonly batchSize?: number;
  readonly learningRate?: number;
  readonly heldOut?: string;
  readonly heldOutFraction?: number;
  readonly heldOutEvery?: number;
  readonly wait: boolean;
}

/** `trainyard sft`: trains a model on examples. */
export function sftCommand(): Command {
  const command = newCommand('sft', 'train a model on conversations')
    .description(
      'Uploads conversations, finds or creates the model, trains it and follows the job. Ctrl-C does not stop the job.',
    )
    .argument('<FILE>', 'JSON lines, each {"messages": [{"role", "content"}, …]}')
    .requiredOption(
      '--model <[[ENTITY/]PROJECT/]NAME>',
      'model to train, by any of its names; created if it does not exist (project sft)',
    )
    .option('--base <MODEL>', 'base model of a new model (the first base model)')
    .option('--epochs <N>', 'passes over the conversations (1)', positive('--epochs'))
    .option('--batch-size <N>', 'conversations per gradient step (default of the service)', positive('--batch-size'))
    .option('--learning-rate <X>', 'learning rate (default of the service)', positive('--learning-rate'))
    .option('--held-out <FILE>', 'conversations that are not trained: their loss is measured')
    .option(
      '--held-out-fraction <X>',
      'share of FILE that is measured instead of trained, above 0 and below 1',
      positive('--held-out-fraction'),
    )
    .option(
      '--held-out-every <N>',
      'gradient steps between two measurements (a tenth of the job)',
      positive('--held-out-every'),
    )
    .option('--no-wait', 'exit as soon as the job is queued');
  withExamples(command, [
    'trainyard sft facts.jsonl --model facts --epochs 3',
    'trainyard sft facts.jsonl --model facts --held-out-fraction 0.1',
    'trainyard sft facts.jsonl --model demo/facts --epochs 5 --no-wait --json',
  ]);
  return addServiceOptions(
    command,
    'the events of the job, one per line, then the job; with --no-wait only the job',
  ).action(async (file: string, options: SftOptions) => {
    const client = serviceClient(options);
    const signal = interruption();
    const isJson = options.json === true;
    const named = readModelName(options.model, '--model', 'sft');
    const { entity, project, name } = named;
    if (options.heldOut !== undefined && options.heldOutFraction !== undefined)
      throw new UsageError('--held-out and --held-out-fraction exclude each other');
    const paths = [file, ...(options.heldOut === undefined ? [] : [options.heldOut])];
    const files = await Promise.all(paths.map(async (path) => ({ path, content: await openFile(path) })));
    const base = options.base ?? (await client.servedModels.list({ signal })).data[0]?.id;
    if (base === undefined) throw new CommandError('the service serves no model; run "trainyard doctor" to see why');
    const wasThere = await isModel(client, named);
    const model = await client.models.register({ entity, project, name, base_model: base }, { signal });
    const artifacts: ArtifactObject[] = [];
    for (const { path, content } of files) {
      const target = { entity: model.entity, project, name: artifactNameOf(path) };
      const artifact = await withProgress(`sending ${basename(path)}`, () =>
        client.artifacts.upload(target, content, {}, { signal }),
      ).catch(async (error: unknown) => {
        if (!wasThere && error instanceof TrainyardApiError && error.status < 500) await removeIdle(client, model.id);
        throw error;
      });
      artifacts.push(artifact);
    }
    const [artifact, heldOut] = artifacts as [ArtifactObject, ArtifactObject?];
    const config: WireSftConfig = {
      ...(options.batchSize === undefined ? {} : { batch_size: options.batchSize }),
      ...(options.learningRate === undefined ? {} : { learning_rate: options.learningRate }),
    };
    const job = await client.sftJobs.create(
      {
        model_id: model.id,
        training_data_url: artifact.url,
        ...(heldOut === undefined ? {} : { held_out_data_url: heldOut.url }),
        config,
        experimental_config: experimentalConfig(options),
      },
      { signal },
    );
    if (!options.wait) {
      if (isJson) printJson(job);
      else process.stdout.write(`queued the job ${job.id}; "trainyard jobs watch ${job.id}" follows it\n`);
      return;
    }
    if (!isJson)
      process.stdout.write(
        `${artifact.num_lines} conversations for ${oneLine(`${model.entity}/${project}/${name}`)}\n`,
      );
    const ended = await watchJob(client, job, { isJson, signal });
    if (isJson) printJsonLine(ended);
    else process.stdout.write(`talk with it: trainyard chat ${oneLine(`${model.entity}/${project}/${name}`)}\n`);
  });
}

function experimentalConfig({ epochs, heldOutFraction, heldOutEvery }: SftOptions): WireSftExperimentalConfig {
  return {
    ...(epochs === undefined ? {} : { epochs }),
    ...(heldOutFraction === undefined ? {} : { held_out_fraction: heldOutFraction }),
    ...(heldOutEvery === undefined ? {} : { held_out_every: heldOutEvery }),
  };
}

/** Deletes the new model after its file was refused, unless another job trains it by now. */
async function removeIdle(client: Trainyard, modelId: string): Promise<void> {
  const jobs = await client.trainingJobs.list({ model_id: modelId, limit: 1 }).toArray(1);
  if (jobs.length === 0) await client.models.delete(modelId);
}

/** Characters that names cannot contain: separators of names, and control characters. */
const UNNAMED = /[/:@\p{Cc}]/gu;

/** Name of the uploaded file, from its path, without forbidden characters. */
function artifactNameOf(file: string): string {
  const name = basename(file).replaceAll(UNNAMED, '-');
  return name.replace(/\.jsonl?$/, '').slice(0, 128) || 'data';
}

function positive(flag: string): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isFinite(value) && value > 0) return value;
    throw new UsageError(`${flag} must be a number above 0, got ${JSON.stringify(text)}`);
  };
}
