/**
 * The service with a real vLLM, on CPUs: its samples match this service, it serves adapters trained here, and
 * it may die.
 *
 *   npm run lab -- vllm                    installs vLLM (5.9 GB, Python 3.12) into .cache if missing, and takes some minutes
 *   npm run lab -- vllm --url URL       uses a running server, with the default model, and kills nothing
 *   npm run lab -- vllm --only draws    only the training of rollouts that were not sampled plainly
 *   npm run lab -- vllm --only faults   only misbehaving servers: two proxies in front of a real server, and one with other weights
 *   npm run lab -- vllm --only resolver only vLLM's own lookup of adapters in the folder of `--vllm-adapter-dir`
 *   npm run lab -- vllm --only serve    starts that server and leaves it running until Ctrl-C: for `npm run bench -- serve --against`
 */
import { mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { type ChatBody, Trainyard } from '@trainyard/sdk';
import OpenAI from 'openai';

import { runArtClient, installedArtReleases } from '../../tests/support/art-client.ts';
import { scoredGroup } from '../../tests/support/groups.ts';
import { freePort } from '../free-port.mjs';
import { ensureHuggingFaceModel } from '../hugging-face/model.ts';
import { prepareTestModel } from '../../scripts/lib/test-model.mjs';
import { installVllm, VllmProcess } from './vllm-process.mjs';
import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { checkFaults, makeOtherModel } from './faults.ts';
import { checkResolver } from './resolver.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** Searched by the servers' own resolver of adapters. */
const RESOLVER_FOLDER = join(ROOT, '.cache/vllm-adapters');
const MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
/** Half precision of 8 bits against single precision, nats. */
const MEAN_TOLERANCE = 0.05;
const TEXT =
  'The yard lies where the river bends. Twelve tracks run side by side, and at the far end, behind the water tower, an old signal box leans a little towards the hills. ' +
  'On Monday the first train of the week came in: forty-one wagons of gravel, nineteen of timber, and a single green carriage that nobody had asked for.';

/**
 * Fragments of the reference's acceptance vectors: over vLLM each is accepted, or refused with the same
 * field, as with the engine of this machine.
 */
const VECTORS: readonly Record<string, unknown>[] = [
  { temperature: '0.5' },
  { temperature: 0.001 },
  { temperature: 3 },
  { temperature: 0, n: 2 },
  { n: '2' },
  { n: 0 },
  { top_k: -1 },
  { top_k: 5, top_p: 0.9, min_p: 0.05 },
  { top_p: 0 },
  { min_p: 1.5 },
  { repetition_penalty: 1.2, presence_penalty: 0.5, frequency_penalty: 0.5 },
  { repetition_penalty: 0 },
  { logit_bias: { abc: 1 } },
  { logit_bias: { '5': 500 } },
  { top_logprobs: 3 },
  { logprobs: true, top_logprobs: 20 },
  { logprobs: true, top_logprobs: 21 },
  { prompt_logprobs: 1 },
  { prompt_logprobs: -2 },
  { stop: ['a', 'b'] },
  { stop: '' },
  { stop_token_ids: [28] },
  { min_tokens: 4 },
  { ignore_eos: true },
  { seed: 5, n: 2 },
  { allowed_token_ids: [28, 29, 30] },
  { allowed_token_ids: [] },
  { logprobs: true, logprob_token_ids: [28, 29] },
  { repetition_detection: { max_pattern_size: 2, min_count: 3 } },
  { cache_salt: 'a/b' },
  { cache_salt: 'salt' },
  { response_format: { type: 'json_object' } },
  { structured_outputs: { choice: ['yes', 'no'] } },
  { structured_outputs: { regex: '[0-9]+' } },
  { structured_outputs: { regex: '[0-9' } },
];

/** Sampling settings for which a server with raw log-probabilities reports enough. */
const DRAWS: readonly [way: string, fields: Partial<ChatBody>][] = [
  ['plainly', {}],
  ['at a temperature', { temperature: 0.7 }],
  ['with penalties and a bias', { repetition_penalty: 1.3, presence_penalty: 0.5, logit_bias: { '198': 4 } }],
  ['with an early end masked', { min_tokens: 8 }],
  ['from allowed ids', { allowed_token_ids: [28, 30, 260, 314], temperature: 0.8 }],
  ['under a regex', { structured_outputs: { regex: '(yes|no), (red|green|blue)' } }],
  ['under a regex, cooler', { structured_outputs: { regex: '(yes|no), (red|green|blue)' }, temperature: 0.7 }],
  ['with top_k', { top_k: 10 }],
  ['with top_k and min_p, cooler', { top_k: 10, min_p: 0.05, temperature: 0.7 }],
  ['with top_p', { top_p: 0.4 }],
];

const { values } = parseArgs({ options: { only: { type: 'string' }, url: { type: 'string' } } });
const log = (line: string): void => console.log(`test:vllm: ${line}`);
let numFailed = 0;

function check(what: string, isOk: boolean, found: unknown = ''): void {
  if (!isOk) numFailed++;
  log(`${isOk ? 'ok  ' : 'FAIL'} ${what}${isOk ? '' : `: ${JSON.stringify(found)}`}`);
}

const { TRAINYARD_TEST_MODEL: modelPath } = prepareTestModel(ROOT, process.env, log);
const vllm = values.url === undefined ? await ownVllm() : null;
const url = values.url ?? vllm!.url;
log(`vLLM answers on ${url}`);
if (values.only === 'serve') await new Promise(() => {});

const environment = { TRAINYARD_MODEL: modelPath };
const over = { ...environment, TRAINYARD_VLLM: url, TRAINYARD_VLLM_MAX_ADAPTERS: '4' };
if (values.only === 'faults') {
  await checkServerFaults();
  end();
}
if (values.only === 'resolver') {
  await checkAdapterResolver();
  end();
}
const service = await ownService({ environment: over });
const exact = await ownService({ environment });
try {
  if (values.only === 'draws') await checkDraws();
  else await checkAll();
} finally {
  await service.close();
  await exact.close();
}
if (values.only === undefined && vllm !== null) {
  await checkAdapterResolver();
  await checkServerFaults();
}
end();

function end(): never {
  vllm?.kill();
  log(numFailed === 0 ? 'all is well' : `${numFailed} checks failed`);
  process.exit(numFailed === 0 ? 0 : 1);
}

async function checkAdapterResolver(): Promise<void> {
  await checkResolver({ url, folder: RESOLVER_FOLDER, model: MODEL, modelPath, check });
}

/** Uses a second server with other weights. */
async function checkServerFaults(): Promise<void> {
  const modelFolder = join(ROOT, '.cache/vllm-other-model');
  await makeOtherModel(join(ROOT, '.cache/vllm-model'), modelFolder);
  const other = await startVllm(modelFolder, 'vllm-other.log');
  try {
    await checkFaults({ url, otherUrl: other.url, model: MODEL, modelPath, check, log });
  } finally {
    other.kill();
  }
}

async function checkAll(): Promise<void> {
  await checkVectors();
  await checkOpenai();
  check('log-probabilities are the exact engine’s, within bf16', ...(await agreement(service, exact, MODEL)));
  const trained = await checkTraining();
  await checkDraws();
  await checkArt();
  if (vllm !== null) await checkDeath(vllm, trained);
}

async function ownVllm(): Promise<VllmProcess> {
  const modelFolder = join(ROOT, '.cache/vllm-model');
  await ensureHuggingFaceModel(modelPath, MODEL, modelFolder, log);
  await rm(RESOLVER_FOLDER, { recursive: true, force: true });
  await mkdir(RESOLVER_FOLDER, { recursive: true });
  return await startVllm(modelFolder, 'vllm.log');
}

async function startVllm(modelFolder: string, logName: string): Promise<VllmProcess> {
  const python = await installVllm(ROOT, log);
  const logFile = join(ROOT, '.cache', logName);
  const started = new VllmProcess({
    python,
    modelFolder,
    port: await freePort(),
    logFile,
    resolverFolder: RESOLVER_FOLDER,
  });
  process.once('exit', () => started.kill());
  process.once('SIGINT', () => process.exit(130));
  await started.start();
  return started;
}

async function checkVectors(): Promise<void> {
  const messages = [{ role: 'user', content: 'Say something.' }];
  for (const fields of VECTORS) {
    const body = { model: MODEL, messages, max_tokens: 4, ...fields };
    const [there, here] = await Promise.all([service, exact].map((one) => outcome(one, body)));
    check(JSON.stringify(fields), there === here, { there, here });
  }
}

async function outcome(one: OwnService, body: object): Promise<string> {
  const answer = await post(one, '/chat/completions', body);
  if (answer.ok) return '200';
  const { error } = (await answer.json()) as { error: { param: string | null } };
  return `${answer.status} ${error.param}`;
}

function post({ url, apiKey }: OwnService, path: string, body: object): Promise<Response> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  return fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function checkOpenai(): Promise<void> {
  const openai = new OpenAI({ baseURL: service.url, apiKey: service.apiKey });
  const messages = [{ role: 'user', content: 'Name a colour.' }] as const;
  const asked = { model: MODEL, messages: [...messages], max_tokens: 8 };
  const whole = await openai.chat.completions.create({ ...asked, temperature: 0 });
  let streamed = '';
  for await (const { choices } of await openai.chat.completions.create({ ...asked, temperature: 0, stream: true }))
    streamed += choices[0]?.delta.content ?? '';
  check('openai: a stream equals the whole answer', streamed === whole.choices[0]?.message.content, streamed);
  const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
  const held = await openai.chat.completions.create({
    ...asked,
    max_tokens: 40,
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
  });
  check('openai: a schema holds', /^\s*\{\s*"a"\s*:\s*-?\d/.test(held.choices[0]?.message.content ?? ''), held.choices);
}

/** Mean distance of the log-probabilities of a text's tokens, as a result of a check. */
async function agreement(one: OwnService, other: OwnService, model: string): Promise<[boolean, unknown]> {
  const [first, second] = await Promise.all([one, other].map((each) => scores(each, model)));
  const differences = first!.map((logprob, at) => Math.abs(logprob - second![at]!));
  const mean = differences.reduce((sum, difference) => sum + difference, 0) / differences.length;
  log(`mean difference over ${differences.length} tokens: ${mean.toFixed(4)}`);
  return [first!.length === second!.length && mean < MEAN_TOLERANCE, mean];
}

async function scores(one: OwnService, model: string): Promise<number[]> {
  const answer = await post(one, '/completions', { model, prompt: TEXT, max_tokens: 1, prompt_logprobs: 0 });
  if (!answer.ok) throw new Error(await answer.text());
  type Place = Record<string, { logprob: number }> | null;
  const { choices } = (await answer.json()) as { choices: { prompt_logprobs: Place[] }[] };
  return choices[0]!.prompt_logprobs.flatMap((place) => (place === null ? [] : [Object.values(place)[0]!.logprob]));
}

/** Checks that vLLM serves an adapter trained on its samples. @returns the model's name */
async function checkTraining(): Promise<string> {
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  const { id } = await client.models.register({ project: 'vllm', name: 'learner', base_model: MODEL });
  const name = 'local/vllm/learner';
  const fields = { logprobs: true };
  const groups = await Promise.all([1, 9].map((seed) => scoredGroup(client, name, { seed, fields })));
  const before = await scores(service, MODEL);
  const { id: jobId } = await client.trainingJobs.create({
    model_id: id,
    trajectory_groups: groups,
    experimental_config: { learning_rate: 1e-2 },
  });
  await client.trainingJobs.gradientSteps(jobId);
  const after = await scores(service, name);
  check(
    'an adapter trained here changes the text of vLLM',
    after.some((logprob, at) => Math.abs(logprob - before[at]!) > 0.05),
  );
  return name;
}

/**
 * Checks that rollouts are trained with the distribution that vLLM sampled from: at the first step both sides
 * give each token the same probability.
 */
async function checkDraws(): Promise<void> {
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  for (const [index, [way, fields]] of DRAWS.entries()) {
    const { id } = await client.models.register({ project: 'vllm', name: `draws-${index}`, base_model: MODEL });
    const group = await scoredGroup(client, `local/vllm/draws-${index}`, { seed: index, maxTokens: 12, fields });
    const { id: jobId } = await client.trainingJobs.create({ model_id: id, trajectory_groups: [group] });
    const [metrics = {}] = (await client.trainingJobs.gradientSteps(jobId)) as Record<string, number>[];
    const { counts } = (await client.trainingJobs.retrieve(jobId)) as { counts: Record<string, object> };
    const report = { gap: metrics['logprob_gap_mean'], ratio: metrics['ratio_mean'], ...counts['unreplayed_choices'] };
    log(`${way}: ${JSON.stringify({ ...report, refused: counts['refused_choices'] })}`);
    const isExact = Number(report.gap) < MEAN_TOLERANCE && Object.keys(counts['unreplayed_choices'] ?? {}).length === 0;
    check(`drawn ${way}`, isExact && Object.keys(counts['refused_choices'] ?? {}).length === 0, counts);
  }
}

async function checkArt(): Promise<void> {
  const releases = await installedArtReleases();
  if (releases.length === 0) log('ART’s clients are not installed (npm run test:clients installs them): left out');
  for (const release of releases) {
    const report = await runArtClient<{ steps: number[]; num_logprobs: number }>('art_client.py', service, release);
    check(`ART’s client (${release}) trains and samples`, report.steps.length > 0 && report.num_logprobs > 0, report);
  }
}

/**
 * Kills vLLM in the middle of a stream: that answer ends with an error, and everything works once vLLM is
 * back, including the adapter.
 */
async function checkDeath(vllm: VllmProcess, trained: string): Promise<void> {
  const messages = [{ role: 'user', content: 'Tell a long story.' }];
  const body = { model: trained, messages, max_tokens: 2000, ignore_eos: true, stream: true };
  const answer = await post(service, '/chat/completions', body);
  let text = '';
  for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
    if (text === '') vllm.kill();
    text += piece;
  }
  check('a stream of a killed server ends with an error', text.includes('"error"'), text.slice(-300));
  const meanwhile = await post(service, '/chat/completions', { ...body, stream: false, max_tokens: 4 });
  check('requests meanwhile get a time to wait', meanwhile.status === 503, meanwhile.status);
  await vllm.start();
  let status = 0;
  for (let numTries = 0; status !== 200 && numTries < 60; numTries++) {
    ({ status } = await post(service, '/chat/completions', { ...body, stream: false, max_tokens: 4 }));
    if (status !== 200) await delay(1000);
  }
  check('when it is there again it has the adapter again', status === 200, status);
}
