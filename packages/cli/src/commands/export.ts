import { createHash } from 'node:crypto';
import { createWriteStream, existsSync, mkdirSync } from 'node:fs';
import { readdir, rename, rm, rmdir } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { formatMegabytes } from '@trainyard/protocol/fields';
import { makeFolders } from '@trainyard/server/settings';
import type { ExportObject, Trainyard } from '@trainyard/sdk';
import { type Command, Option } from 'commander';

import { CommandError, UsageError } from '../terminal/command-error.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import { interruption } from '../terminal/interrupted.ts';
import {
  addServiceOptions,
  type JsonOption,
  serviceClient,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { withProgress } from '../terminal/with-progress.ts';
import { servedNameOf } from './find-model.ts';

const FORMATS = ['peft', 'gguf-adapter', 'merged-gguf', 'merged-safetensors'] as const;
const DTYPES = ['f16', 'f32'] as const;

type ExportFormat = (typeof FORMATS)[number];
type ExportDtype = (typeof DTYPES)[number];

interface ExportOptions extends ServiceOptions, JsonOption {
  readonly format?: ExportFormat;
  readonly base?: string;
  readonly output: string;
  readonly dtype?: ExportDtype;
  readonly keep?: true;
}

/** Formats of a base model and the folder of each: for `--model` here, and for vLLM and external trainers. */
const BASE_FORMS = [
  { format: 'merged-gguf', folder: 'gguf' },
  { format: 'merged-safetensors', folder: 'hugging-face' },
] as const;

/** `trainyard export`: a checkpoint, or a base model, as local files. */
export function exportCommand(): Command {
  const command = newCommand('export', 'write a checkpoint, or a base model, to files in a public format')
    .argument('[MODEL]', '[[ENTITY/]PROJECT/]NAME[:stepN]; default step: the latest')
    .addOption(
      new Option('--format <FORMAT>', 'format of the files; with --base the default is both merged formats').choices(
        FORMATS,
      ),
    )
    .option(
      '--base <PATH>',
      'export this base model (GGUF file or Hugging Face folder) instead of MODEL, as a new GGUF file and in the Hugging Face format; needs no service',
    )
    .requiredOption('--output <FOLDER>', 'target folder; must be empty or not exist')
    .addOption(new Option('--dtype <TYPE>', 'type of merged weights (f16)').choices(DTYPES))
    .option('--keep', 'keep the copy of the export on the service');
  withExamples(command, [
    'trainyard export demo/short-answers --format peft --output ./adapter',
    'trainyard export short-answers:step3 --format merged-gguf --output ./model --dtype f32',
    'trainyard export --base ./model.gguf --output ./base',
  ]);
  return addServiceOptions(command, '{"export", "files": [{"name", "path", "size_bytes", "sha256"}]}').action(
    async (model: string | undefined, options: ExportOptions) => {
      const output = resolve(options.output);
      const { base, format } = options;
      if (base !== undefined) {
        if (model !== undefined) throw new UsageError('--base exports a base model: do not pass MODEL');
        return await withEmptyFolder(output, () => exportBaseTo(base, { ...options, output }, interruption()));
      }
      if (model === undefined) throw new UsageError("missing required argument 'MODEL' (or --base PATH)");
      if (format === undefined) throw new UsageError("required option '--format <FORMAT>' not specified");
      const client = serviceClient(options);
      const signal = interruption();
      await withEmptyFolder(output, () => exportTo(client, model, { ...options, format, output }, signal));
    },
  );
}

/** Fills a new or empty folder; after a failure removes the folders that it created. */
async function withEmptyFolder(folder: string, fill: () => Promise<void>): Promise<void> {
  const firstMade = foldersMade(folder);
  if ((await readdir(folder)).length > 0) throw new CommandError(`the folder ${folder} is not empty`);
  try {
    await fill();
  } catch (error) {
    for (const name of await readdir(folder)) await rm(join(folder, name), { force: true, recursive: true });
    if (firstMade !== undefined) await removeMade(folder, firstMade);
    throw error;
  }
}

/** @returns the highest new folder; undefined if all existed */
function foldersMade(folder: string): string | undefined {
  try {
    return makeFolders(folder);
  } catch (error) {
    throw new CommandError(`cannot create the folder ${folder}: ${(error as Error).message}`);
  }
}

/** Removes `folder` and its parents up to `firstMade`, which are otherwise empty. */
async function removeMade(folder: string, firstMade: string): Promise<void> {
  for (let path = folder; path.length >= firstMade.length; path = dirname(path)) await rmdir(path);
}

async function exportTo(
  client: Trainyard,
  model: string,
  { format, dtype, output, keep, json }: ExportOptions & { readonly format: ExportFormat },
  signal: AbortSignal,
): Promise<void> {
  const isJson = json === true;
  const { modelId, name, step } = await findModel(client, model);
  const { id } = await client.exports.create(modelId, { format, step, dtype: dtype ?? null }, { signal });
  let isWhole = false;
  try {
    const finished = await withProgress(`exporting ${name} as ${format}`, () =>
      client.exports.wait(modelId, id, { signal }),
    );
    const files: object[] = [];
    for (const file of finished.files) {
      const path = await withProgress(`fetching ${file.name}`, () =>
        download(client, finished, file, { output, signal }),
      );
      files.push({ ...file, path });
      if (!isJson) process.stdout.write(`${formatMegabytes(file.size_bytes).padStart(12)}  ${path}\n`);
    }
    if (isJson) printJson({ export: finished, files });
    else process.stdout.write(parityLine(finished));
    isWhole = true;
  } finally {
    // Reports the first error, even if the service has gone since.
    if (keep === undefined)
      await client.exports.delete(modelId, id).catch((error: unknown) => (isWhole ? fail(error) : undefined));
  }
}

async function exportBaseTo(
  base: string,
  { format, dtype = 'f16', output, keep, json }: ExportOptions,
  signal: AbortSignal,
): Promise<void> {
  if (keep !== undefined) throw new UsageError('--keep applies to exports on a service and cannot be used with --base');
  const modelPath = resolve(base);
  if (!existsSync(modelPath)) throw new CommandError(`the model file ${modelPath} does not exist`);
  const forms = BASE_FORMS.filter((form) => format === undefined || form.format === format);
  if (forms.length === 0) throw new UsageError(`a base model has no adapter: --format ${format} needs MODEL`);
  const name = basename(modelPath).replace(/\.gguf$/, '');
  const written: object[] = [];
  for (const form of forms) {
    const outputDirectory = join(output, form.folder);
    mkdirSync(outputDirectory);
    const request = {
      modelPath,
      name,
      format: form.format,
      dtype,
      outputDirectory,
      numThreads: availableParallelism(),
    };
    const log = (line: string) => void process.stderr.write(`${line}\n`);
    const { exportBase } = await import('@trainyard/server');
    const { files, parity } = await withProgress(`writing ${name} as ${form.format}`, () =>
      exportBase(request, { signal, log }),
    );
    written.push({ format: form.format, folder: outputDirectory, files, parity });
    if (json === true) continue;
    for (const file of files)
      process.stdout.write(`${formatMegabytes(file.sizeBytes).padStart(12)}  ${join(outputDirectory, file.name)}\n`);
    const { numTokens, meanDifference, maxDifference } = parity;
    process.stdout.write(
      `parity on ${numTokens} tokens with ${modelPath}: mean |Δlogprob| ${meanDifference.toFixed(5)}, max ${maxDifference.toFixed(5)}\n`,
    );
  }
  if (json === true) printJson({ base: modelPath, exports: written });
}

function fail(error: unknown): never {
  throw error;
}

/** Resolves a name to a version. */
async function findModel(
  client: Trainyard,
  requested: string,
): Promise<{ modelId: string; name: string; step: number }> {
  const card = await client.servedModels.retrieve(await servedNameOf(client, requested));
  const [, entity, project, name, step] = /^([^/]+)\/([^/]+)\/(.+):step(\d+)$/.exec(card.id) ?? [];
  if (entity === undefined || project === undefined || name === undefined || card.parent === null) {
    throw new CommandError(`${requested} is a base model; only models trained here can be exported`);
  }
  // The model exists, so this finds it.
  const model = await client.models.register({ entity, project, name, base_model: card.parent });
  return { modelId: model.id, name: card.id, step: Number(step) };
}

/** Downloads a file whole and with the announced digest, or leaves none. */
async function download(
  client: Trainyard,
  { id, model_id: modelId }: ExportObject,
  file: ExportObject['files'][number],
  { output, signal }: { readonly output: string; readonly signal: AbortSignal },
): Promise<string> {
  const path = join(output, file.name);
  const partial = `${path}.partial`;
  const response = await client.exports.download(modelId, id, file.name, { signal });
  const hash = createHash('sha256');
  try {
    if (response.body === null) throw new CommandError(`${file.name} has no content`);
    await pipeline(
      Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]),
      async function* (chunks: AsyncIterable<Uint8Array>) {
        for await (const chunk of chunks) {
          hash.update(chunk);
          yield chunk;
        }
      },
      createWriteStream(partial, { flush: true }),
    );
    const digest = hash.digest('hex');
    if (digest !== file.sha256) throw new CommandError(`${file.name} has SHA-256 ${digest}, expected ${file.sha256}`);
    await rename(partial, path);
    return path;
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

function parityLine({ parity }: ExportObject): string {
  if (parity === null) return '';
  const { num_tokens: numTokens, mean_abs_difference: mean, max_abs_difference: max } = parity;
  return (
    `parity on ${numTokens} tokens, files run with ${parity.computed_by}: mean |Δlogprob| ${mean.toFixed(5)}, max ${max.toFixed(5)} ` +
    `(effect of the adapter itself: ${parity.adapter_effect.toFixed(5)})\n`
  );
}
