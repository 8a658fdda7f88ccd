import { randomUUID } from 'node:crypto';

import { distanceOfScores, type FixedScores } from '@trainyard/backend';
import { type LoraConfig, TrainerError } from '@trainyard/trainer';

import type { GradientRecipe, TinkerProfile } from '../profiles/tinker-profile.ts';
import { type AdamParams, type RemoteModel, RESTING } from '../transport/remote-model.ts';
import type { ServerFacts } from '../transport/server-facts.ts';
import { wireFault } from '../wire/wire-fault.ts';
import type { PeftFiles } from './adapter-archive.ts';
import { deleteCheckpoint, fetchAdapter } from './checkpoints.ts';
import { forwardDatums, type GatheredSequence, gradientDatums, LOSS_OF } from './gradient-datums.ts';
import { type InitialScale, measureScale, scalingStep } from './initial-scale.ts';
import { RemoteSlots, type SlotParts } from './remote-slots.ts';

/** A server with known treatment of gradients, clipping and fresh adapters. */
export interface ProvenServer extends SlotParts {
  readonly recipe: GradientRecipe;
  readonly clipping: TinkerProfile['clipping'];
  readonly initialScale: InitialScale;
}

export interface Proof {
  readonly recipe: GradientRecipe;
  readonly clipping: TinkerProfile['clipping'];
  readonly initialScale: InitialScale;
  /** Mean absolute difference of the base model's log-probabilities, nats; null without a reference. */
  readonly meanDifference: number | null;
}

export interface ProofParts {
  readonly server: SlotParts;
  /** Shape for the coming job: some servers accept only one. */
  readonly lora: LoraConfig;
  /** At least 16 tokens with scores of the base model here; null: no reference. */
  readonly base: FixedScores | null;
  readonly checkAdapter: (files: PeftFiles) => void;
}

/**
 * A server in half precision differs by 0.05 on average, another model by more than 1. Adapters return to this
 * file, so the limit is stricter than a sampler's.
 */
const MAX_MEAN_DIFFERENCE = 0.15;
/**
 * Change of the sum of log-probabilities by a trial step along its gradient, nats: more than half precision
 * hides, less than curvature distorts.
 */
const TRIAL_CHANGE = 0.1;
const TRIAL_EPSILON = 1e9;
const RECIPES: readonly GradientRecipe[] = ['weights', 'advantages', 'meanAdvantages'];

/**
 * Tests a server once, with a temporary model: that it has the same base model, applies gradients, clips or not,
 * returns adapters, and draws fresh ones of the same size.
 *
 * @throws {TrainerError} `trainer.remote_differs` with the finding and the remedy
 */
export async function proveServer({ server, lora, base, checkAdapter }: ProofParts): Promise<Proof> {
  const { facts } = server;
  const slots = new RemoteSlots(server, lora);
  try {
    const initialScale = await tryScale(slots, facts, checkAdapter);
    const model = await slots.trained();
    const meanDifference = base === null ? null : await compareBase(model, base);
    const trial = await trialSequence(model, base === null ? countingTokens() : Int32Array.from(base.tokenIds));
    const reported = await normUnder(facts.profile.recipe, model, facts, [trial]);
    const proof =
      reported === null || facts.profile.clipping === 'server'
        ? { recipe: facts.profile.recipe, clipping: facts.profile.clipping }
        : await tryGradients(model, facts, trial);
    return { ...proof, initialScale, meanDifference };
  } finally {
    await slots.close();
  }
}

async function adapterOf(model: RemoteModel, { http, profile }: ServerFacts): Promise<PeftFiles> {
  const checkpoint = await model.saveForSampler(`trainyard-${randomUUID()}`);
  const files = await fetchAdapter(http, profile, checkpoint);
  await deleteCheckpoint(http, checkpoint);
  return files;
}

/**
 * Compares a fresh adapter's size with this service's, and tests if weight decay corrects it. Takes another
 * model if a step is refused.
 */
async function tryScale(
  slots: RemoteSlots,
  facts: ServerFacts,
  checkAdapter: ProofParts['checkAdapter'],
): Promise<InitialScale> {
  const model = await slots.trained();
  const fresh = await adapterOf(model, facts);
  checkAdapter(fresh);
  const { factor, differs, isUniform } = measureScale(fresh);
  if (!differs) return { factor: 1, isMatched: true };
  if (!isUniform) return { factor, isMatched: false };
  try {
    await (
      await model.step(scalingStep(factor))
    )();
  } catch (error) {
    if (!(error instanceof TrainerError) || error.code !== 'trainer.remote_refused') throw error;
    await slots.load(null);
    return { factor, isMatched: false };
  }
  return { factor, isMatched: !measureScale(await adapterOf(model, facts)).differs };
}

async function compareBase(model: RemoteModel, base: FixedScores): Promise<number> {
  const tokenIds = Int32Array.from(base.tokenIds);
  const sequence = { tokens: tokenIds.slice(0, -1), targets: tokenIds.slice(1) };
  const [found] = await forward(model, [sequence]);
  const { mean, words } = distanceOfScores(base, found!);
  if (mean <= MAX_MEAN_DIFFERENCE) return mean;
  throw new TrainerError(
    'trainer.remote_differs',
    `the base model of the Tinker server differs from the file in --model: ${words} (rounding explains at most ${MAX_MEAN_DIFFERENCE}). ` +
      'Use the same weights on both, or correct --trainer-model',
  );
}

/** Finds the recipe for which the server's gradient is a plain sum, and tests if it clips. */
async function tryGradients(
  model: RemoteModel,
  facts: ServerFacts,
  trial: GatheredSequence,
): Promise<Pick<Proof, 'recipe' | 'clipping'>> {
  const { profile } = facts;
  const found: string[] = [];
  for (const recipe of [profile.recipe, ...RECIPES.filter((other) => other !== profile.recipe)]) {
    const fault = await faultOf(recipe, model, facts, trial);
    if (fault !== null) {
      found.push(`${recipe}: ${fault}`);
      continue;
    }
    const norm = await requireNorm(recipe, model, facts, [trial]);
    const moved = await movedBy(recipe, model, trial, { norm, clip: norm / 10 });
    // With clipping, a tenth of the gradient moves the sum a tenth as far.
    const clips = moved < 0.5 * TRIAL_CHANGE;
    return { recipe, clipping: clips ? 'step' : 'measured' };
  }
  throw new TrainerError(
    'trainer.remote_differs',
    `no known recipe makes the Tinker server return the requested sum of gradients (${found.join('; ')}). Try another --trainer-profile`,
  );
}

/** Null if gradients are plain sums and steps descend along them. */
async function faultOf(
  recipe: GradientRecipe,
  model: RemoteModel,
  facts: ServerFacts,
  { logprobs: _before, ...sequence }: GatheredSequence,
): Promise<string | null> {
  // Trials of other recipes may have moved the model.
  const [logprobs] = await forward(model, [sequence]);
  const trial = { ...sequence, logprobs: logprobs! };
  const norm = async (...sequences: GatheredSequence[]): Promise<number> =>
    await requireNorm(recipe, model, facts, sequences);
  const one = await norm(trial);
  const ratios = {
    'twice the gradient': (await norm(scaled(trial, () => 2))) / one / 2,
    'the same sequence twice': (await norm(trial, trial)) / one / 2,
    // The loss ends with the shorter sequence; later tokens must not count.
    'tokens without a loss':
      (await norm(scaled(trial, (i) => (i < shortLength(trial) ? 1 : 0)))) / (await norm(shortened(trial))),
  };
  for (const [what, ratio] of Object.entries(ratios))
    if (!(Math.abs(ratio - 1) <= 0.02)) return `${what} gives ${ratio.toPrecision(3)} of the norm of a sum`;
  const moved = await movedBy(recipe, model, trial, { norm: one, clip: 0 });
  if (Math.abs(moved / TRIAL_CHANGE - 1) > 0.3)
    return `a step along the gradient changes the loss by ${(moved / TRIAL_CHANGE).toPrecision(3)} of the expected amount`;
  return null;
}

/** Actual change of a step that should change the sum by `TRIAL_CHANGE`. */
async function movedBy(
  recipe: GradientRecipe,
  model: RemoteModel,
  trial: GatheredSequence,
  { norm, clip }: { norm: number; clip: number },
): Promise<number> {
  const before = await lossOf(model, trial);
  const current = { ...trial, logprobs: before.logprobs };
  await gather(recipe, model, [current]);
  // Adam with an epsilon that dominates every gradient is plain descent.
  const rate = TRIAL_CHANGE / norm ** 2;
  const step: AdamParams = {
    ...RESTING,
    learning_rate: rate * TRIAL_EPSILON,
    eps: TRIAL_EPSILON,
    grad_clip_norm: clip,
  };
  await (
    await model.step(step)
  )();
  return before.loss - (await lossOf(model, trial)).loss;
}

async function lossOf(model: RemoteModel, trial: GatheredSequence): Promise<{ loss: number; logprobs: Float32Array }> {
  const [logprobs] = await forward(model, [trial]);
  return { loss: trial.lossGradient.reduce((sum, slope, i) => sum + slope * logprobs![i]!, 0), logprobs: logprobs! };
}

async function requireNorm(
  recipe: GradientRecipe,
  model: RemoteModel,
  facts: ServerFacts,
  sequences: readonly GatheredSequence[],
): Promise<number> {
  const norm = await normUnder(recipe, model, facts, sequences);
  if (norm !== null && Number.isFinite(norm) && norm > 0) return norm;
  throw wireFault(`a gradient norm is ${norm}`);
}

/** Norm reported by a step of length 0. */
async function normUnder(
  recipe: GradientRecipe,
  model: RemoteModel,
  { profile }: ServerFacts,
  sequences: readonly GatheredSequence[],
): Promise<number | null> {
  await gather(recipe, model, sequences);
  const metrics = await (await model.step(RESTING))();
  return profile.gradNormMetrics.map((name) => metrics[name]).find((value) => value !== undefined) ?? null;
}

async function gather(
  recipe: GradientRecipe,
  model: RemoteModel,
  sequences: readonly GatheredSequence[],
): Promise<void> {
  const datums = gradientDatums(sequences, { recipe, factor: 1 });
  await (
    await model.pass(datums, { lossName: LOSS_OF[recipe], isForwardOnly: false })
  )();
}

async function forward(
  model: RemoteModel,
  sequences: readonly Pick<GatheredSequence, 'tokens' | 'targets'>[],
): Promise<readonly Float32Array[]> {
  const pass = await model.pass(forwardDatums(sequences), { lossName: 'cross_entropy', isForwardOnly: true });
  return (await pass()).logprobs;
}

async function trialSequence(model: RemoteModel, tokenIds: Int32Array): Promise<GatheredSequence> {
  const sequence = { tokens: tokenIds.slice(0, -1), targets: tokenIds.slice(1) };
  const [logprobs] = await forward(model, [sequence]);
  const half = Math.floor(sequence.tokens.length / 2);
  const lossGradient = Float32Array.from(sequence.tokens, (_, i) => (i < half / 2 ? 0 : i % 3 === 0 ? 0.4 : -0.7));
  return { ...sequence, logprobs: logprobs!, lossGradient };
}

/** First three quarters. */
function shortened(trial: GatheredSequence): GatheredSequence {
  const length = shortLength(trial);
  return {
    tokens: trial.tokens.slice(0, length),
    targets: trial.targets.slice(0, length),
    logprobs: trial.logprobs.slice(0, length),
    lossGradient: trial.lossGradient.slice(0, length),
  };
}

function shortLength({ tokens }: GatheredSequence): number {
  return Math.floor((3 * tokens.length) / 4);
}

function scaled(trial: GatheredSequence, scaleOf: (index: number) => number): GatheredSequence {
  return { ...trial, lossGradient: trial.lossGradient.map((slope, i) => slope * scaleOf(i)) };
}

function countingTokens(): Int32Array {
  return Int32Array.from({ length: 33 }, (_, i) => 1 + i);
}
