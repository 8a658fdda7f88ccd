import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isatty } from 'node:tty';

import {
  does,
  needsModelFiles,
  refuseUnstartable,
  type RunningService,
  type ServiceConfig,
  serviceLog,
  startParts,
  startService,
} from '@trainyard/server';

import { printJsonLine } from '../terminal/print-json.ts';
import { npmScript } from '../terminal/this-program.ts';
import { refuseMissingBf16 } from './bf16-problem.ts';
import { defaultModelPath, fetchDefaultModel } from './default-model.ts';
import { gettingStarted, modelLines } from './getting-started.ts';
import { unknownVariables } from './unknown-variables.ts';

/** Folder of the dashboard, built by the bootstrap and part of the packed command line. */
const DASHBOARD = join(import.meta.dirname, '../../../dashboard/dist');
/** Folder with the documents: the repository, or the packed command line. */
const ROOT = join(import.meta.dirname, '../../../..');

/**
 * Runs the service, or the parts of its role, until a signal ends it.
 *
 * @param commandLinePage Markdown of the page about the command line, for the guides
 * @throws {ServerError} for settings and folders that no service can start with
 */
export async function runService(config: ServiceConfig, isJson: boolean, commandLinePage: () => string): Promise<void> {
  // Files of the service are private to their owner.
  process.umask(0o077);
  const unknown = unknownVariables(process.env);
  if (unknown.length > 0) {
    const log = serviceLog(config, writeLine);
    for (const line of unknown) log(`${line}; ignored`);
  }
  await refuseUnstartable(config);
  await refuseMissingBf16(config);
  const { models, role } = config;
  if (needsModelFiles(role) && models.some(({ path }) => path === defaultModelPath(config)))
    await fetchDefaultModel(config);
  const startedAt = performance.now();
  if (!does(config.role, 'api')) return await runParts(config, isJson, startedAt);
  const service = await startService(config, writeLine, {
    dashboardDirectory: existsSync(DASHBOARD) ? DASHBOARD : null,
    demoCommand: npmScript('demo'),
    guides: existsSync(join(ROOT, 'docs')) ? { root: ROOT, commandLinePage } : null,
  });
  if (isJson) printJsonLine(readyLine(service));
  else process.stdout.write(gettingStarted(service, (performance.now() - startedAt) / 1000));
  const graceMs = graceOf(await endSignal(), config);
  if (graceMs > 0)
    serviceLog(
      config,
      writeLine,
    )(`shutting down: /readyz now returns 503, new connections are accepted for ${graceMs / 1000} s more`);
  else printEnding(config, 'finishing running requests');
  await service.close({ graceMs });
}

/**
 * Runs parts without HTTP for clients: an engine, a trainer, or both. A trainer has no address, because its
 * jobs come from the database.
 */
async function runParts(config: ServiceConfig, isJson: boolean, startedAt: number): Promise<void> {
  const { role } = config;
  const parts = await startParts(config, writeLine);
  const { engineUrl, modelIds, metricsUrl } = parts;
  if (isJson) printJsonLine({ role, engine_url: engineUrl, models: modelIds, metrics_url: metricsUrl });
  else {
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    const name = role.replace(',', ' and ');
    const address =
      engineUrl === null ? '' : `Engine    ${engineUrl} (for API processes, see TRAINYARD_ENGINE_SECRET)\n`;
    process.stdout.write(`\nTrainyard's ${name} is ready in ${seconds} s\n${address}${modelLines(modelIds)}\n`);
  }
  await endSignal();
  printEnding(config, ENDING[role] ?? 'finishing running requests');
  await parts.close();
}

/** Work that the end of a process waits for, by role. */
const ENDING: Partial<Record<ServiceConfig['role'], string>> = {
  trainer: 'returning the running job to the queue',
  'engine,trainer': 'finishing running requests and returning the running job to the queue',
};

function writeLine(line: string): void {
  process.stderr.write(`${line}\n`);
}

function printEnding(config: ServiceConfig, what: string): void {
  if (config.logFormat === 'json') serviceLog(config, writeLine)(what);
  // On a new line after the terminal's `^C`.
  else writeLine(`\n${what} (press Ctrl-C again to stop at once)`);
}

/** Contains no secret: the key is in its file. */
function readyLine({ url, signInUrl, keyFile, modelIds }: RunningService): object {
  const dashboardUrl = signInUrl === null ? null : `${url}/`;
  return { url: `${url}/v1`, dashboard_url: dashboardUrl, sign_in_url: signInUrl, key_file: keyFile, models: modelIds };
}

const END_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Under npm one Ctrl-C arrives twice: from the terminal, and forwarded by npm. */
const SAME_KEYPRESS_MS = 1_000;

/** Grace period of the end: none on a terminal, because no balancer sends requests to such a service. */
function graceOf(signal: EndSignal, { drainGraceMs }: ServiceConfig): number {
  return signal === 'SIGTERM' && !isatty(0) ? drainGraceMs : 0;
}

type EndSignal = (typeof END_SIGNALS)[number];

async function endSignal(): Promise<EndSignal> {
  const received = Promise.withResolvers<EndSignal>();
  let firstAtMs: number | null = null;
  for (const signal of END_SIGNALS) {
    process.on(signal, () => {
      const nowMs = performance.now();
      if (firstAtMs !== null && nowMs - firstAtMs > SAME_KEYPRESS_MS) process.exit(130);
      firstAtMs ??= nowMs;
      received.resolve(signal);
    });
  }
  return await received.promise;
}
