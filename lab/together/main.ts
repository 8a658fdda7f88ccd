/**
 * A real vLLM samples and a real SkyRL trains, on the cores of one machine, taking turns, for the unmodified
 * ART client; and each of the three is killed once.
 *
 *   npm run lab -- together               installs vLLM and SkyRL (12 GB in .cache) if they are missing, then about a quarter of an hour
 *   npm run lab -- together --steps 3  fewer steps: the kills are in steps 2 (vLLM), 3 (SkyRL) and 4 (the service)
 *   npm run lab -- together --small    on two layers of the model, with meaningless text: a step takes seconds
 *
 * Then the same model continues with the other pairings of sampler and trainer, changed only by settings, a
 * step each. No step is lost or doubled: by the service (steps, events, digests, usage), by the client, and
 * by SkyRL's own database.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';

import { installedArtReleases } from '../../tests/support/art-client.ts';
import { ensureHuggingFaceModel } from '../hugging-face/model.ts';
import { freePort } from '../free-port.mjs';
import { pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { prepareTestModel } from '../../scripts/lib/test-model.mjs';
import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { stateChain } from './server-chain.ts';
import { type Turn, Turns } from './turns.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const NUM_ROLLOUTS = 8 * 4;
/** Default rank of models. */
const RANK = 8;
/** Steps in which each part is killed. */
const KILLS = { vllm: 2, skyrl: 3, service: 4 } as const;
const TEXT =
  'The yard lies where the river bends, and twelve tracks run side by side past an old signal box that leans towards the hills.';
/**
 * Tolerance of the mean difference between vLLM and the engine of this machine for log-probabilities of one
 * adapter, nats; half against single precision.
 */
const MEAN_TOLERANCE = 0.05;

interface ClientReport {
  readonly model_id: string;
  readonly first_step: number;
  readonly steps: readonly { step: number; num_trajectories: number; num_sampled_tokens: number }[];
  readonly checkpoints: readonly number[];
  readonly tally: { num_answers: number; prompt_tokens: number; completion_tokens: number; num_retries: number };
}

/** Settings of the sampler and the trainer. */
interface Pairing {
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
}

const { values } = parseArgs({
  options: { steps: { type: 'string', default: '5' }, small: { type: 'boolean', default: false } },
});
const numSteps = Number(values.steps);
const startedAt = performance.now();
const log = (line: string): void =>
  console.log(`test:together ${((performance.now() - startedAt) / 1000).toFixed(0).padStart(4)} s: ${line}`);
let numFailed = 0;
function check(what: string, isOk: boolean, found: unknown = ''): void {
  if (!isOk) numFailed++;
  log(`${isOk ? 'ok  ' : 'FAIL'} ${what}${isOk ? '' : `: ${JSON.stringify(found)}`}`);
}

const [release] = (await installedArtReleases()).toReversed();
if (release === undefined)
  throw new Error('ART’s client is not installed. Install it with "node scripts/bootstrap.mjs --python"');
const models = prepareTestModel(ROOT, process.env, log);
const modelPath = values.small ? models.TRAINYARD_TEST_MODEL_SMALL : models.TRAINYARD_TEST_MODEL;
const modelFolder = join(ROOT, values.small ? '.cache/vllm-small-model' : '.cache/vllm-model');
await ensureHuggingFaceModel(modelPath, MODEL, modelFolder, log);
const folder = mkdtempSync(join(tmpdir(), 'trainyard-together-'));
const dataDirectory = join(folder, 'data');
process.once('SIGINT', () => process.exit(130));

const turns = await Turns.start({ root: ROOT, modelFolder, workFolder: folder, maxRank: RANK, log });
const sampler = { TRAINYARD_VLLM: turns.vllm.url, TRAINYARD_VLLM_MAX_ADAPTERS: '4' };
const trainer = { TRAINYARD_TRAINER_URL: turns.skyrlUrl };
const pairing = (name: string, environment: Record<string, string>): Pairing => ({ name, environment });
let endClient: () => void = () => {};
let service = null as OwnService | null;
/** The service is killed and comes back with its address and key. */
const place = { TRAINYARD_PORT: String(await freePort()), TRAINYARD_API_KEY: 'a-key-that-stays-over-restarts' };
const tally = { answers: 0, promptTokens: 0, completionTokens: 0 };
try {
  const both = await runPairing(pairing('vLLM samples, SkyRL trains', { ...sampler, ...trainer }), numSteps, KILLS);
  await checkRecords(both.model_id, numSteps);
  checkServer(numSteps);
  turns.take('both');
  // It was stopped while the last step was trained.
  await untilSampled();
  const there = await scores(numSteps);
  log(
    `${numSteps} steps with all their checks: load ${loadavg()
      .map((load) => load.toFixed(1))
      .join(' ')}`,
  );

  await runPairing(pairing('this machine samples, SkyRL trains', trainer), 1);
  checkServer(numSteps + 1);
  turns.take('both');
  const here = await scores(numSteps);
  const mean = here.reduce((sum, logprob, at) => sum + Math.abs(logprob - there[at]!), 0) / here.length;
  check(
    `step ${numSteps} has the same log-probabilities in both: ${mean.toFixed(4)} nats`,
    mean < MEAN_TOLERANCE,
    mean,
  );
  await runPairing(pairing('vLLM samples, this machine trains', sampler), 1);
  await runPairing(pairing('this machine samples and trains', {}), 1);
  await checkRecords(both.model_id, numSteps + 3);
} catch (error) {
  numFailed++;
  console.error(error);
  console.error(service?.output());
} finally {
  turns.take('both');
  await service?.stop();
  await turns.close();
  if (numFailed === 0) rmSync(folder, { recursive: true });
  else log(`the logs are in ${folder}`);
}
log(numFailed === 0 ? 'all is well' : `${numFailed} checks failed`);
process.exit(numFailed === 0 ? 0 : 1);

/** Runs some steps of the client with a service with these settings, which continues from the last one. */
async function runPairing(
  { name, environment }: Pairing,
  numSteps: number,
  kills: Partial<typeof KILLS> = {},
): Promise<ClientReport> {
  log(name);
  turns.take('both');
  await service?.stop();
  const start = async (): Promise<OwnService> =>
    await ownService({ dataDirectory, environment: { TRAINYARD_MODEL: modelPath, ...place, ...environment } });
  service = await start();
  const killings: Promise<void>[] = [];
  const isRemote = { sampling: 'TRAINYARD_VLLM' in environment, training: 'TRAINYARD_TRAINER_URL' in environment };
  const onTurn = async (turn: 'sampling' | 'training', step: number): Promise<void> => {
    await Promise.all(killings.splice(0));
    turns.take(takenBy(turn, isRemote));
    if (turn === 'sampling' && isRemote.sampling) await untilSampled();
    log(`step ${step}: ${turn}`);
    const begin = (killing: Promise<void>): void => {
      // Its failure is reported when it is awaited, after the client's end.
      killing.catch(() => endClient());
      killings.push(killing);
    };
    if (turn === 'sampling' && step === kills.vllm) begin(killVllm());
    if (turn === 'training' && step === kills.skyrl) begin(killSkyrl());
    if (turn === 'training' && step === kills.service)
      begin(
        killService().then(async () => {
          // It checks the sampler at its start.
          turns.take('both');
          service = await start();
          turns.take(takenBy('training', isRemote));
          log('the service is back');
        }),
      );
  };
  const report = await runClient(numSteps, onTurn).finally(async () => await Promise.all(killings));
  const steps = report.steps.map(({ step }) => step);
  const expected = Array.from({ length: numSteps }, (_, index) => report.first_step + index + 1);
  check(`${name}: steps ${expected.join(', ')}`, JSON.stringify(steps) === JSON.stringify(expected), steps);
  check(
    'every rollout came back, and each once',
    report.steps.every((step) => step.num_trajectories === NUM_ROLLOUTS) &&
      report.tally.num_answers === NUM_ROLLOUTS * numSteps,
    report.tally,
  );
  if (kills.vllm !== undefined && numSteps >= kills.vllm)
    check('rollouts of a killed server were requested again', report.tally.num_retries > 0);
  tally.answers += report.tally.num_answers;
  tally.promptTokens += report.tally.prompt_tokens;
  tally.completionTokens += report.tally.completion_tokens;
  return report;
}

/** A part on this machine needs no server: both are stopped. */
function takenBy(turn: 'sampling' | 'training', isRemote: Record<'sampling' | 'training', boolean>): Turn {
  return isRemote[turn] ? turn : turn === 'sampling' ? 'training' : 'sampling';
}

async function runClient(
  numSteps: number,
  onTurn: (turn: 'sampling' | 'training', step: number) => Promise<void>,
): Promise<ClientReport> {
  const { url, apiKey } = service!;
  const script = join(ROOT, 'tests/clients/art_together_client.py');
  const child = spawn(pythonEnvironment(ROOT, release).python, [script, url, apiKey, MODEL, String(numSteps)], {
    stdio: ['pipe', 'pipe', 'pipe'],
    // litellm, a dependency of the client, would fetch a price list at import.
    env: { ...process.env, LITELLM_LOCAL_MODEL_COST_MAP: 'True', WANDB_API_KEY: '', PYTHONDONTWRITEBYTECODE: '' },
  });
  let complaints = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaints = (complaints + text).slice(-10_000)));
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  endClient = () => void child.kill('SIGKILL');
  process.once('exit', endClient);
  let report: ClientReport | null = null;
  for await (const line of createInterface({ input: child.stdout })) {
    const [word, turn, step] = line.split(' ');
    if (word === 'TURN') {
      await onTurn(turn as 'sampling' | 'training', Number(step));
      child.stdin.write('go\n');
    }
    if (word === 'REPORT') report = JSON.parse(line.slice('REPORT '.length)) as ClientReport;
  }
  const code = await ended;
  process.off('exit', endClient);
  if (report === null) throw new Error(`the client ended with ${code}: ${complaints.replaceAll(/^.*█.*$/gm, '')}`);
  return report;
}

async function untilSampled(): Promise<void> {
  while (!/^trainyard_server_up\{[^}]*\} 1$/m.test(await metrics())) await delay(200);
}

async function metrics(): Promise<string> {
  const { url, apiKey } = service!;
  const answer = await fetch(new URL('/metrics', url), { headers: { authorization: `Bearer ${apiKey}` } });
  if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
  return await answer.text();
}

async function killVllm(): Promise<void> {
  const inFlight = /^trainyard_server_choices\{[^}]*\} (\d+)$/m;
  while (Number(inFlight.exec(await metrics())?.[1]) === 0) await delay(20);
  log('vLLM is killed, in the middle of rollouts');
  await turns.killVllm();
  log('vLLM is back');
}

async function killSkyrl(): Promise<void> {
  await untilTrained();
  log('SkyRL is killed, in the middle of a job');
  await turns.killSkyrl();
  log('SkyRL is back');
}

async function killService(): Promise<void> {
  await untilTrained();
  log('the service is killed, in the middle of a job');
  process.kill(service!.pid, 'SIGKILL');
  await service!.stop();
}

/** Waits until a model of the running job has had a gradient: its numbers are on disk before they are sent. */
async function untilTrained(): Promise<void> {
  const path = join(dataDirectory, 'trainer/tinker-models.jsonl');
  const lines = (): string[] => (existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []);
  const numBefore = lines().length;
  const isSent = (line: string): boolean => (JSON.parse(line) as { lastSeqId: number | null }).lastSeqId === 2;
  while (!lines().slice(numBefore).some(isSent)) await delay(50);
}

/** Steps, jobs, events, digests and usage from the service. */
async function checkRecords(modelId: string, numSteps: number): Promise<void> {
  const client = new Trainyard({ baseUrl: service!.url, apiKey: service!.apiKey });
  const { data: checkpoints } = await client.checkpoints.list(modelId);
  const expected = Array.from({ length: numSteps + 1 }, (_, step) => step);
  const steps = checkpoints.map(({ step }) => step);
  check(`checkpoints ${expected.join(', ')}, each once`, JSON.stringify(steps) === JSON.stringify(expected), steps);
  const { data: jobs } = await client.trainingJobs.list({ model_id: modelId });
  check(
    'as many jobs, all succeeded, each on the step before',
    jobs.length === numSteps && jobs.every((job, index) => job.status === 'succeeded' && job.start_step === index),
    jobs.map(({ status, start_step: step }) => [status, step]),
  );
  let trainedTokens = 0;
  for (const job of jobs) {
    const { data: events } = await client.trainingJobs.events(job.id, { limit: 100 });
    const types = events.map(({ type }) => String(type)).filter((type) => type !== 'warning');
    const expectedTypes = [
      'training_started',
      ...Array.from({ length: job.num_gradient_steps_done }, () => 'gradient_step'),
      'training_ended',
    ];
    check(
      `events of job ${job.start_step! + 1}: ${job.num_gradient_steps_done} gradient steps`,
      job.num_gradient_steps_done > 0 && JSON.stringify(types) === JSON.stringify(expectedTypes),
      types,
    );
    for (const { type, data } of events)
      if (type === 'gradient_step') trainedTokens += Number((data as Record<string, unknown>)['num_trainable_tokens']);
  }
  check('every sampled token was trained once', trainedTokens === tally.completionTokens, [
    trainedTokens,
    tally.completionTokens,
  ]);
  const { data: usage } = await client.usage.read({ by: 'kind' });
  const chat = usage.find(({ kind }) => kind === 'chat');
  check(
    'usage counts the delivered tokens',
    chat?.num_requests === tally.answers &&
      chat.prompt_tokens === tally.promptTokens &&
      chat.completion_tokens === tally.completionTokens,
    [chat, tally],
  );
  log(`usage: ${JSON.stringify(usage)}`);
  const digests = digestsOfFiles();
  check(`${numSteps} adapters with the stored digests, no two alike`, digests.size === numSteps, [...digests]);
}

/** Digests of the adapter files in the data folder, each compared with the one stored next to it. */
function digestsOfFiles(): Set<string> {
  const found = new Set<string>();
  const blobs = join(dataDirectory, 'blobs');
  for (const name of readdirSync(blobs, { recursive: true }).map(String)) {
    if (!name.endsWith('adapter_model.safetensors')) continue;
    const path = join(blobs, name);
    const digest = createHash('sha256').update(readFileSync(path)).digest('hex');
    const written = readFileSync(join(path, '../digest'), 'utf8').trim();
    check(`the digest of ${name.split('/').slice(-3, -1).join('/')}`, digest === written, [digest, written]);
    found.add(digest);
  }
  return found;
}

/** Checks SkyRL's own database: from the fresh adapter to the newest checkpoint, one step per step. */
function checkServer(numSteps: number): void {
  const records: { address: string; numSteps: number }[] = [];
  const blobs = join(dataDirectory, 'blobs');
  for (const name of readdirSync(blobs, { recursive: true }).map(String))
    if (name.endsWith('tinker.json'))
      records.push(JSON.parse(readFileSync(join(blobs, name), 'utf8')) as { address: string; numSteps: number });
  const newest = records.toSorted((one, other) => other.numSteps - one.numSteps)[0];
  if (newest === undefined) throw new Error('no checkpoint of SkyRL is in the data folder');
  const { numSteps: found, modelIds } = stateChain(join(folder, 'skyrl.db'), newest.address);
  check(
    `SkyRL’s database has ${newest.numSteps} steps on the way to the newest checkpoint, over ${modelIds.length} models`,
    found === newest.numSteps && records.length === numSteps,
    { found, newest, numRecords: records.length, modelIds },
  );
}

/** Log-probabilities of a text with a step of the model. */
async function scores(step: number): Promise<number[]> {
  const { url, apiKey } = service!;
  const body = JSON.stringify({
    model: `local/together/learner:step${step}`,
    prompt: TEXT,
    max_tokens: 1,
    prompt_logprobs: 0,
  });
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const answer = await fetch(`${url}/completions`, { method: 'POST', headers, body });
  if (!answer.ok) throw new Error(await answer.text());
  type Place = Record<string, { logprob: number }> | null;
  const { choices } = (await answer.json()) as { choices: { prompt_logprobs: Place[] }[] };
  return choices[0]!.prompt_logprobs.flatMap((place) => (place === null ? [] : [Object.values(place)[0]!.logprob]));
}
