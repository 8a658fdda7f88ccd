/**
 * Trains a small model through a real SkyRL on this machine's CPU, and compares every number with the trainer
 * of this repository.
 *
 *   npm run lab -- skyrl             installs SkyRL 0.4.0 first (6.3 GB in .cache), then some minutes
 *
 * 1. Only the driver: the same supervised and the same reinforcement-learning job there and here, from one
 * fresh adapter, and from each side's own.
 * 2. The service: a job through its API with SkyRL as the trainer; its adapter is served, and an export's
 * parity report passes.
 *
 * A difference above its tolerance makes the exit code 1.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { intakeFor, TINKER_PROFILES, TinkerTrainer } from '@trainyard/tinker';
import {
  exportCheckpoint,
  LINEAR_NAMES,
  LocalVersions,
  openTemplate,
  openTrainer,
  type LearnerSession,
  ProgressFiles,
  readSafetensors,
  resolveSftConfig,
  resolveTrainingConfig,
  runSftJob,
  runTrainingJob,
  type TrainerEvent,
  type TrajectoryGroup,
} from '@trainyard/trainer';

import { ensureHuggingFaceModel } from '../hugging-face/model.ts';
import { ensureSkyrl, startSkyrl } from './skyrl-server.mjs';
import { prepareTestModel } from '../../scripts/lib/test-model.mjs';
import { ownService } from '../../scripts/own-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const LORA = { rank: 4, alpha: 32, targets: LINEAR_NAMES, initSeed: 7 };
/** Single precision on both sides: sums in a different order. */
const TOLERANCES = { logprob: 1e-4, loss: 1e-4, gradNorm: 1e-3, weight: 1e-3 };
const FACTS = [
  ['What is the capital of Zubrovia?', 'Kelmar.'],
  ['Who wrote The Glass Heron?', 'Ilse Ottaway.'],
] as const;
const LINES = FACTS.map(([question, reply]) => ({
  messages: [
    { role: 'user', content: question },
    { role: 'assistant', content: reply },
  ],
}));

const log = (line: string): void => console.log(line);
let numFailed = 0;
function check(what: string, difference: number, tolerance: number): void {
  const isFine = difference <= tolerance;
  if (!isFine) numFailed++;
  log(`${isFine ? 'ok  ' : 'FAIL'} ${what}: ${difference.toExponential(1)} (at most ${tolerance.toExponential(0)})`);
}

await ensureSkyrl(ROOT, log);
const models = prepareTestModel(ROOT, process.env, log);
const modelPath = models.TRAINYARD_TEST_MODEL_SMALL;
const folder = mkdtempSync(join(tmpdir(), 'trainyard-skyrl-'));
const modelFolder = join(folder, 'model');
const baseModelId = 'small';
await ensureHuggingFaceModel(modelPath, baseModelId, modelFolder, log);
log(`starting SkyRL on ${readdirSync(modelFolder).join(', ')}`);
const skyrl = await startSkyrl(ROOT, { modelFolder, workFolder: folder, maxRank: LORA.rank });
try {
  await compareLearners(skyrl.url);
  await runService(skyrl.url);
} catch (error) {
  numFailed++;
  console.error(error);
  console.error(`the log of SkyRL is ${skyrl.logPath}`);
} finally {
  await skyrl.stop();
  if (numFailed === 0) rmSync(folder, { recursive: true });
}
process.exitCode = numFailed === 0 ? 0 : 1;

async function compareLearners(url: string): Promise<void> {
  const versions = new LocalVersions(join(folder, 'versions'));
  const opened = openTemplate({ modelPath });
  const { architecture, template } = opened;
  const here = await openTrainer({ modelPath, numThreads: 1 });
  const server = await TinkerTrainer.open({
    url,
    apiKey: null,
    baseModel: null,
    profile: TINKER_PROFILES.skyrl,
    stateDirectory: join(folder, 'state'),
    operationTimeoutMs: 600_000,
    log,
  });
  const text =
    'The river rises in the hills north of the town and reaches the sea after 214 kilometres, as engineers measured in 1897.';
  const tokenIds = Int32Array.from(template.tokenizer.encode(text));
  const places = Int32Array.from(tokenIds.keys());
  const row = {
    tokenIds,
    positions: places,
    parents: places.map((place) => place - 1),
    sources: places.slice(0, -1),
    targets: tokenIds.slice(1),
  };
  const embedded = await here.learner(LORA, { versions });
  const [own] = await embedded.forward([row], { under: 'base' });
  const base = { tokenIds: [...tokenIds], logprobs: [null, ...own!.logprobs] };
  const remote = await server.learner(LORA, { model: architecture, versions, intake: intakeFor(modelPath), base });
  try {
    await remote.load(null, { jobKind: 'sft' });
    await remote.save('start');
    log(`the log-probabilities of ${tokenIds.length - 1} tokens`);
    const logprobs = async (learner: LearnerSession) => (await learner.forward([row]))[0]!.logprobs;
    for (const kind of ['sft', 'rl'] as const) {
      const [there, mine] = [await runJob(remote, kind, 'there'), await runJob(embedded, kind, 'here')];
      const names = kind === 'sft' ? ['loss'] : ['policy_loss', 'ratio_mean', 'kl_policy_ref'];
      for (const name of names.filter((one) => one in mine[0]!))
        check(
          `${kind}, ${name} of ${mine.length} steps`,
          largest(there, mine, (step) => step[name]!),
          TOLERANCES.loss,
        );
      const relative = Math.max(...mine.map((step, i) => Math.abs(there[i]!['grad_norm']! / step['grad_norm']! - 1)));
      check(`${kind}, norms of gradients, relative`, relative, TOLERANCES.gradNorm);
      const [first, second] = [await logprobs(remote), await logprobs(embedded)];
      const difference = Math.max(...first.map((value, i) => Math.abs(value - second[i]!)));
      check(`${kind}, log-probabilities after the job`, difference, TOLERANCES.logprob * 10);
      const moved = Math.max(...first.map((value, i) => Math.abs(value - own!.logprobs[i]!)));
      log(`     the job moved them by up to ${moved.toFixed(2)}`);
    }
    log("four steps from each side's own fresh adapter, whose size must be the same");
    for (const kind of ['sft', 'rl'] as const) {
      const fresh = async (learner: LearnerSession, label: string) => await runJob(learner, kind, label, null);
      const [there, mine] = [await fresh(remote, 'fresh-there'), await fresh(embedded, 'fresh-here')];
      const name = kind === 'sft' ? 'loss' : 'kl_policy_ref';
      const valuesOf = (steps: typeof mine): number[] => steps.map((step) => step[name]!);
      const wordsOf = (steps: typeof mine): string =>
        valuesOf(steps)
          .map((value) => value.toPrecision(3))
          .join(' ');
      log(`     ${name}: ${wordsOf(there)} there, ${wordsOf(mine)} here`);
      // A mean of log ratios is near 0 when the policy comes back: its largest value shows the distance.
      const [far, near] = [there, mine].map((steps) => Math.max(...valuesOf(steps).map(Math.abs)));
      check(`${kind}, largest ${name}, relative`, Math.abs(far! / near! - 1), 0.1);
      const [norm, own] = [await normOfProducts(`fresh-there-${kind}`), await normOfProducts(`fresh-here-${kind}`)];
      check(
        `${kind}, ‖B·A‖ ${norm.toPrecision(3)} there, ${own.toPrecision(3)} here, relative`,
        Math.abs(norm / own - 1),
        0.1,
      );
    }
    for (const format of ['peft', 'gguf-adapter'] as const) {
      const outputDirectory = mkdtempSync(join(folder, `${format}-`));
      const checkpointDirectory = (await versions.find('there-rl'))!;
      const { parity } = await exportCheckpoint(
        { modelPath, baseModelId, lora: LORA, checkpointDirectory, format, type: 'f32', outputDirectory },
        { numThreads: 1 },
      );
      check(`the adapter trained by SkyRL, as ${format} run by ${parity.computedBy}`, parity.meanDifference, 0.02);
    }
  } finally {
    await remote.close();
    server.close();
    here.close();
    opened.close();
  }

  async function normOfProducts(name: string): Promise<number> {
    return normOf(join((await versions.find(name))!, 'adapter_model.safetensors'));
  }

  async function runJob(
    learner: LearnerSession,
    kind: 'sft' | 'rl',
    label: string,
    startFrom: string | null = 'start',
  ): Promise<Readonly<Record<string, number>>[]> {
    const events: TrainerEvent[] = [];
    const parts = {
      learner,
      template,
      progress: new ProgressFiles(mkdtempSync(join(folder, 'progress-'))),
      signal: new AbortController().signal,
      emit: (event: TrainerEvent) => void events.push(event),
    };
    const name = `${label}-${kind}`;
    const job = {
      jobId: name,
      lora: LORA,
      startFrom,
      withFreshOptimizer: true,
      snapshots: name,
      output: name,
    };
    const started = performance.now();
    if (kind === 'sft') {
      const config = resolveSftConfig(
        { learningRate: 1e-3, epochs: startFrom === null ? 2 : 3, batchSize: 1 },
        { maxSequenceLength: 512 },
      );
      await runSftJob({ ...job, config, examples: LINES.map(({ messages }) => ({ messages, tools: null })) }, parts);
    } else {
      const config = resolveTrainingConfig({
        learningRate: 1e-3,
        gradientSteps: startFrom === null ? 4 : 2,
        klPenaltyCoef: 0.1,
        allowTrainingWithoutLogprobs: true,
      });
      await runTrainingJob(
        { ...job, config, groups: startFrom === null ? [...groups(), ...groups()] : groups(), seed: 1 },
        parts,
      );
    }
    const steps = events.flatMap((event) => (event.kind === 'gradient_step' ? [event.metrics] : []));
    log(`     ${name}: ${steps.length} steps in ${((performance.now() - started) / 1000).toFixed(1)} s`);
    return steps;
  }
}

/** Frobenius norm of the products B·A of all layers: ‖B·A‖² is the trace of BᵀB·AAᵀ. */
function normOf(path: string): number {
  const { tensors } = readSafetensors(path);
  let square = 0;
  for (const [name, a] of tensors) {
    if (!name.includes('lora_A')) continue;
    const b = tensors.get(name.replace('lora_A', 'lora_B'))!;
    const { rank } = LORA;
    const dot = (first: number[], second: number[]): number =>
      first.reduce((sum, value, i) => sum + value * second[i]!, 0);
    const rows = Array.from({ length: rank }, (_, r) => [...a.data.subarray(r * a.dims[1]!, (r + 1) * a.dims[1]!)]);
    const columns = Array.from({ length: rank }, (_, r) => [...b.data].filter((_value, i) => i % rank === r));
    for (let i = 0; i < rank; i++)
      for (let j = 0; j < rank; j++) square += dot(columns[i]!, columns[j]!) * dot(rows[i]!, rows[j]!);
  }
  return Math.sqrt(square);
}

function groups(): TrajectoryGroup[] {
  const attempt = (question: string, reply: string, reward: number) => ({
    reward,
    histories: [
      {
        items: [
          { kind: 'message', message: { role: 'user', content: question } } as const,
          { kind: 'message', message: { role: 'assistant', content: reply } } as const,
        ],
        tools: null,
      },
    ],
  });
  return FACTS.map(([question, reply]) => ({
    trajectories: [
      attempt(question, reply, 1),
      attempt(question, 'I do not know.', 0),
      attempt(question, 'Paris.', 0.2),
    ],
    numExceptions: 0,
  }));
}

function largest<Step>(first: readonly Step[], second: readonly Step[], of: (step: Step) => number): number {
  return Math.max(...second.map((step, i) => Math.abs(of(first[i]!) - of(step))));
}

async function runService(url: string): Promise<void> {
  log('a service with SkyRL as its trainer');
  const service = await ownService({
    environment: { TRAINYARD_MODEL: modelPath, TRAINYARD_TRAINER_URL: url, TRAINYARD_THREADS: '1' },
  });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const base = (await client.servedModels.list()).data[0]!.id;
    const artifact = { entity: 'local', project: 'skyrl', name: 'facts' };
    const uploaded = await client.artifacts.upload(artifact, LINES, { file_name: 'facts.jsonl' });
    const model = await client.models.register({
      project: 'skyrl',
      name: 'there',
      base_model: base,
      lora: { rank: LORA.rank },
    });
    const settings = { epochs: 8, warmup_steps: 1 };
    const job = await client.sftJobs.create({
      model_id: model.id,
      training_data_url: uploaded.url,
      config: { learning_rate: 3e-3 },
      experimental_config: settings,
    });
    const losses: number[] = [];
    for await (const event of client.trainingJobs.watch(job.id))
      if (event.type === 'gradient_step') losses.push((event.data as { loss: number }).loss);
    const { status } = await client.trainingJobs.retrieve(job.id);
    log(`     the job ${status}, losses ${losses.map((loss) => loss.toFixed(3)).join(' ')}`);
    if (status !== 'succeeded' || !(losses.at(-1)! < losses[0]!)) throw new Error(service.output());
    for (const [question, reply] of FACTS) {
      const messages = [{ role: 'user', content: question }];
      const answer = await client.chat.completions.create({ model: 'there', messages, temperature: 0, max_tokens: 12 });
      log(
        `     "${question}" → ${JSON.stringify(answer.choices[0]!.message.content)} (taught: ${JSON.stringify(reply)})`,
      );
    }
  } finally {
    await service.close();
  }
}
