import { createHash } from 'node:crypto';
import { createWriteStream, existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';

import { ExportFailedError, Trainyard, TrainyardApiError } from '@trainyard/sdk';
import { dataPaths, resolveConfig, ServerError } from '@trainyard/server';

const FORMATS = ['peft', 'gguf-adapter', 'merged-gguf', 'merged-safetensors'] as const;
const DTYPES = ['f16', 'f32'] as const;

const USAGE = `usage: trainyard export MODEL[:stepN] --format FORMAT --output FOLDER [options]

  MODEL is a name as chat requests take it: name, project names in front where needed; without :stepN the latest step.

  --format FORMAT   ${FORMATS.join(', ')}
  --output FOLDER   where the files go; it must be empty or not exist yet
  --dtype TYPE      ${DTYPES.join(', ')}: of merged weights (f16)
  --keep            leave the export on the service, which holds a copy of the files
  --url URL         of the service (http://127.0.0.1:8420/v1, or what host and port are set to)
  --data-dir FOLDER where the key of a service on this machine lies (.trainyard)

The key is TRAINYARD_API_KEY, or the one of a service on this machine.
`;

type ExportFormat = (typeof FORMATS)[number];
type ExportDtype = (typeof DTYPES)[number];
type ExportObject = Awaited<ReturnType<Trainyard['exports']['get']>>;

interface ExportArguments {
  readonly model: string;
  readonly format: ExportFormat;
  readonly dtype: ExportDtype | null;
  readonly output: string;
  readonly keeps: boolean;
  readonly url: string;
  readonly apiKey: string;
}

/** `trainyard export`: a checkpoint as files on this machine. @returns the exit code; 2 for a wrong command line */
export async function exportModel(args: readonly string[]): Promise<number> {
  const parsed = parseArguments(args);
  if (typeof parsed === 'string') {
    process.stderr.write(`trainyard: ${parsed}\n\n${USAGE}`);
    return 2;
  }
  if (parsed === null) {
    process.stdout.write(USAGE);
    return 0;
  }
  try {
    await run(parsed);
    return 0;
  } catch (error) {
    if (
      !(error instanceof TrainyardApiError || error instanceof ExportFailedError || error instanceof ExportCommandError)
    ) {
      throw error;
    }
    process.stderr.write(`trainyard: ${error.message}\n`);
    return 1;
  }
}

async function run(options: ExportArguments): Promise<void> {
  const { format, dtype, output } = options;
  const client = new Trainyard({ baseUrl: options.url, apiKey: options.apiKey });
  await mkdir(output, { recursive: true });
  if ((await readdir(output)).length > 0) throw new ExportCommandError(`the folder ${output} is not empty`);
  const { modelId, name, step } = await findModel(client, options.model);
  const { id } = await client.exports.create(modelId, { format, step, dtype });
  process.stdout.write(`exporting ${name} as ${format}\n`);
  try {
    const finished = await client.exports.wait(modelId, id);
    for (const file of finished.files) {
      const path = await download(client, finished, file, output);
      process.stdout.write(`${(file.size_bytes / 1e6).toFixed(1).padStart(9)} MB  ${path}\n`);
    }
    process.stdout.write(parityLine(finished));
  } finally {
    if (!options.keeps) await client.exports.delete(modelId, id);
  }
}

/** The version that a name stands for. */
async function findModel(
  client: Trainyard,
  requested: string,
): Promise<{ modelId: string; name: string; step: number }> {
  const card = await client.getModel(requested);
  const [, entity, project, name, step] = /^([^/]+)\/([^/]+)\/(.+):step(\d+)$/.exec(card.id) ?? [];
  if (entity === undefined || project === undefined || name === undefined || card.parent === null) {
    throw new ExportCommandError(`${requested} is the base model: only models that are trained here can be exported`);
  }
  // It exists, so this finds it.
  const model = await client.registerModel({ entity, project, name, baseModel: card.parent });
  return { modelId: model.id, name: card.id, step: Number(step) };
}

/** Whole and of the announced digest, or absent. */
async function download(
  client: Trainyard,
  { id, model_id: modelId }: ExportObject,
  file: ExportObject['files'][number],
  output: string,
): Promise<string> {
  const path = join(output, file.name);
  const partial = `${path}.partial`;
  const response = await client.exports.download(modelId, id, file.name);
  const hash = createHash('sha256');
  try {
    if (response.body === null) throw new ExportCommandError(`${file.name} came without a body`);
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
    if (digest !== file.sha256)
      throw new ExportCommandError(`${file.name} came with sha256 ${digest}, expected ${file.sha256}`);
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
    `parity on ${numTokens} tokens, the files run by ${parity.computed_by}: mean |Δlogprob| ${mean.toFixed(5)}, max ${max.toFixed(5)} ` +
    `(the adapter itself makes ${parity.adapter_effect.toFixed(5)})\n`
  );
}

class ExportCommandError extends Error {
  override readonly name = 'ExportCommandError';
}

/** Null: help was asked for. Text: what is wrong. */
function parseArguments(args: readonly string[]): ExportArguments | string | null {
  let parsed;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        format: { type: 'string' },
        dtype: { type: 'string' },
        output: { type: 'string' },
        keep: { type: 'boolean', default: false },
        url: { type: 'string' },
        'data-dir': { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    return (error as Error).message;
  }
  const { values, positionals } = parsed;
  if (values.help) return null;
  const [model] = positionals;
  if (model === undefined || positionals.length !== 1) return `one MODEL is needed, got ${positionals.length}`;
  const format = FORMATS.find((known) => known === values.format);
  if (format === undefined) return `--format must be one of ${FORMATS.join(', ')}, got ${values.format ?? 'none'}`;
  const dtype = DTYPES.find((known) => known === values.dtype) ?? null;
  if (dtype === null && values.dtype !== undefined)
    return `--dtype must be ${DTYPES.join(' or ')}, got ${values.dtype}`;
  if (values.output === undefined) return '--output FOLDER is needed';
  const connection = connectionOf(values.url, values['data-dir']);
  if (typeof connection === 'string') return connection;
  return { model, format, dtype, output: resolve(values.output), keeps: values.keep, ...connection };
}

function connectionOf(url: string | undefined, dataDir: string | undefined): { url: string; apiKey: string } | string {
  try {
    const flags = dataDir === undefined ? {} : { dataDir };
    const config = resolveConfig({ flags, environment: process.env, configPath: null });
    const { keyFile } = dataPaths(config.dataDirectory);
    const apiKey = config.apiKey ?? (existsSync(keyFile) ? readFileSync(keyFile, 'utf8').trim() : null);
    if (apiKey === null) return `no key: set TRAINYARD_API_KEY (there is no ${keyFile})`;
    return { url: url ?? `http://${config.host}:${config.port}/v1`, apiKey };
  } catch (error) {
    if (error instanceof ServerError) return error.message;
    throw error;
  }
}
