import { existsSync, readFileSync, statfsSync } from 'node:fs';

import { Trainyard } from '@trainyard/sdk';
import { dataPaths } from '@trainyard/server';

import { parseSettings } from './settings.ts';

/** Free space below which a training run may not fit: a checkpoint with its optimizer takes about 40 MB. */
const LOW_DISK_BYTES = 1e9;

/** `trainyard doctor`: says what works here and what does not. @returns 0 when everything does */
export async function doctor(args: readonly string[]): Promise<number> {
  const settings = parseSettings('doctor', args);
  if (settings.kind === 'help') {
    process.stdout.write(settings.text);
    return 0;
  }
  const { config } = settings;
  const paths = dataPaths(config.dataDirectory);
  const url = `http://${config.host}:${config.port}/v1`;
  const checks: [what: string, problem: string | null][] = [
    [
      `Node ${process.version}`,
      Number(process.versions.node.split('.')[0]) >= 24 ? null : 'Node 24 or newer is needed',
    ],
    [
      `model file ${config.modelPath}`,
      existsSync(config.modelPath) ? null : 'missing: run "npm start" once, or set TRAINYARD_MODEL',
    ],
    [`data folder ${config.dataDirectory}`, diskProblem(config.dataDirectory)],
    [`service at ${url}`, await serviceProblem(url, config.apiKey ?? readKey(paths.keyFile))],
  ];
  for (const [what, problem] of checks)
    process.stdout.write(`${problem === null ? 'ok  ' : 'BAD '} ${what}${problem === null ? '' : `: ${problem}`}\n`);
  return checks.every(([, problem]) => problem === null) ? 0 : 1;
}

function diskProblem(directory: string): string | null {
  if (!existsSync(directory)) return 'does not exist yet: the first start makes it';
  const { bavail, bsize } = statfsSync(directory);
  const free = bavail * bsize;
  return free < LOW_DISK_BYTES ? `only ${(free / 1e6).toFixed(0)} MB free` : null;
}

function readKey(path: string): string | null {
  return existsSync(path) ? readFileSync(path, 'utf8').trim() : null;
}

async function serviceProblem(url: string, apiKey: string | null): Promise<string | null> {
  const client = new Trainyard({ baseUrl: url, apiKey: apiKey ?? '' });
  try {
    if (!(await client.isHealthy({ signal: AbortSignal.timeout(3_000) }))) return 'it answers, but a host is down';
    if (apiKey === null) return 'it is up, but no key is at hand to try it';
    const { data } = await client.listModels({ signal: AbortSignal.timeout(3_000) });
    return data.length > 0 ? null : 'it lists no model';
  } catch (error) {
    return `not reachable (${(error as Error).message}); start it with "npm start"`;
  }
}
