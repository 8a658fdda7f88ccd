import { statfsSync } from 'node:fs';

import { formatMegabytes } from '@trainyard/protocol/fields';
import { TrainyardApiError, TrainyardConnectionError } from '@trainyard/sdk';
import {
  dataPaths,
  does,
  examineCluster,
  examineDatabase,
  examineModel,
  examineRemoteParts,
  type Finding,
  multipliesBf16,
  needsModelFiles,
  readKeyFile,
  refuseUnusableDataDirectory,
  ServerError,
  type ServiceConfig,
} from '@trainyard/server';

import { attentiveClient, isNothingListening } from '../terminal/attentive-client.ts';
import { ReportedError } from '../terminal/command-error.ts';
import { printJson } from '../terminal/print-json.ts';
import { wrapWords } from '../terminal/printable.ts';
import { serviceUrl } from '../terminal/service-connection.ts';
import { widthOf } from '../terminal/table.ts';
import { START } from '../terminal/this-program.ts';
import { bf16Problem, ONEDNN_STEPS } from './bf16-problem.ts';
import { DEFAULT_MODEL_BYTES, defaultModelPath } from './default-model.ts';
import { type SettingOptions, settingsOf } from './settings.ts';
import { stepText } from './step-text.ts';
import { unknownVariables } from './unknown-variables.ts';

/** Free space below which a training run may not fit: a checkpoint with its optimizer takes about 40 MB. */
const LOW_DISK_BYTES = 1e9;
const ANSWER_TIMEOUT_MS = 3_000;

export interface DoctorOptions extends SettingOptions {
  readonly json?: true;
  readonly url?: string;
}

/**
 * Examines the machine and the service, and prints a line per check, or one object.
 *
 * @throws {ReportedError} if a check failed
 */
export async function examineAndPrint({ json: isJson, url: named, ...settings }: DoctorOptions): Promise<void> {
  const config = settingsOf(settings);
  const { dataDir } = settings;
  const url = serviceUrl(
    {
      ...(named === undefined ? {} : { url: named }),
      ...(typeof dataDir === 'string' ? { dataDir } : {}),
    },
    config,
  );
  const checks: Finding[] = [];
  for await (const check of examine(config, url)) {
    checks.push(check);
    if (isJson === undefined) process.stdout.write(lineOf(check));
  }
  const isOk = checks.every(({ problem }) => problem === null);
  if (isJson === true) printJson({ ok: isOk, checks });
  if (!isOk) throw new ReportedError('some checks failed');
}

function lineOf({ subject, problem }: Finding): string {
  const line = problem === null ? `ok   ${subject}` : `BAD  ${subject}: ${problem}`;
  return `${wrapWords(line, widthOf(process.stdout), ' '.repeat('BAD  '.length))}\n`;
}

async function* examine(config: ServiceConfig, url: string): AsyncGenerator<Finding> {
  const { models, dataDirectory } = config;
  yield {
    name: 'node',
    subject: `Node ${process.version}`,
    problem: Number(process.versions.node.split('.')[0]) >= 24 ? null : 'Node 24 or newer is needed',
  };
  for (const problem of unknownVariables(process.env)) yield { name: 'settings', subject: 'settings', problem };
  for (const model of needsModelFiles(config.role) ? models : []) {
    yield* modelChecks(model, config);
  }
  yield { name: 'data_folder', subject: `data folder ${dataDirectory}`, problem: folderProblem(dataDirectory) };
  const database = await examineDatabase(config.database);
  yield { name: 'database', subject: `database ${database.name}`, problem: database.problem };
  // Without an answer further checks have no result.
  if (database.problem === null) yield* examineCluster(config);
  yield* examineRemoteParts(config);
  yield await precisionCheck(config);
  // A process without the role has no address to check.
  if (!does(config.role, 'api')) return;
  const problem = await serviceProblem(url);
  yield { name: 'service', subject: `service at ${url}`, problem };
  // Without an answer the key cannot be checked.
  if (problem !== null) return;
  const { secret, problem: keyFileProblem } =
    config.apiKey === null ? readKeyFile(dataPaths(dataDirectory).keyFile) : { secret: config.apiKey, problem: null };
  yield {
    name: 'key',
    subject: config.apiKey === null ? 'key of this machine' : 'key in the settings',
    problem: keyFileProblem ?? (await keyProblem(url, secret)),
  };
}

/** Without bf16 in the settings, reports if bf16 is possible. */
async function precisionCheck(config: ServiceConfig): Promise<Finding> {
  const { precision } = config;
  if (precision === 'bf16') return { name: 'precision', subject: 'precision bf16', problem: await bf16Problem(config) };
  const hint =
    multipliesBf16() === true
      ? ` (this processor has bf16 instructions: ${ONEDNN_STEPS}, then use --precision bf16)`
      : '';
  return { name: 'precision', subject: `precision ${precision}${hint}`, problem: null };
}

/**
 * Checks a model file, and predicts the cost of its training. A missing default model is no fault if a start would
 * fetch it.
 */
async function* modelChecks(model: ServiceConfig['models'][number], config: ServiceConfig): AsyncGenerator<Finding> {
  const finding = (problem: string | null, note = '') => ({
    name: 'model',
    subject: `model file ${model.path}${note}`,
    problem,
  });
  try {
    const { untrainable, memory, step } = await examineModel(model, config);
    yield finding(null, untrainable === null ? '' : ` (sampling only, not trainable: ${untrainable})`);
    if (memory !== null) yield { name: 'memory', subject: memory, problem: null };
    if (step !== null) yield { name: 'step', subject: stepText(step), problem: null };
  } catch (error) {
    if (!(error instanceof ServerError) || error.code !== 'server.model_missing')
      return yield finding((error as Error).message);
    if (model.path !== defaultModelPath(config))
      return yield finding(
        'missing: put the file there, or set TRAINYARD_MODEL to another file; if it is unset, the default model is downloaded',
      );
    yield finding(null, ` (downloaded at the first start, ${formatMegabytes(DEFAULT_MODEL_BYTES, 0)})`);
  }
}

function folderProblem(directory: string): string | null {
  try {
    const { bavail, bsize } = statfsSync(refuseUnusableDataDirectory(directory));
    const free = bavail * bsize;
    return free < LOW_DISK_BYTES ? `only ${formatMegabytes(free, 0)} free` : null;
  } catch (error) {
    return (error as Error).message;
  }
}

const UNHEALTHY = 'a server responds, but not as a healthy service (see its output)';

/** Checks without a key. */
async function serviceProblem(url: string): Promise<string | null> {
  const client = attentiveClient({ baseUrl: url, apiKey: null });
  try {
    if (await client.service.isHealthy({ signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })) return null;
    return UNHEALTHY;
  } catch (error) {
    if (error instanceof TrainyardApiError) return UNHEALTHY;
    if (error instanceof TrainyardConnectionError)
      return isNothingListening(error) ? `${error.reason}; start it with "${START}"` : error.reason;
    return (error as Error).name === 'TimeoutError'
      ? `it accepts connections but did not respond within ${ANSWER_TIMEOUT_MS / 1000} s`
      : (error as Error).message;
  }
}

async function keyProblem(url: string, apiKey: string | null): Promise<string | null> {
  if (apiKey === null) return 'no key: set TRAINYARD_API_KEY, or pass the data folder of the service';
  const client = attentiveClient({ baseUrl: url, apiKey });
  try {
    const { data } = await client.servedModels.list({ signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    return data.length > 0 ? null : 'the key is valid, but the service serves no model';
  } catch (error) {
    if (!(error instanceof TrainyardApiError)) return (error as Error).message;
    if (error.status === 401) return 'the service runs, but rejects this key';
    return error.status === 403 ? 'the key is valid, but cannot sample (it lacks the scope inference)' : error.message;
  }
}
