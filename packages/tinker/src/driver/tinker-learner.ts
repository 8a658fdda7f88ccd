import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import {
  type AdapterVersion,
  type CallOptions,
  checkpointDigest,
  LINEAR_NAMES,
  type LearnerCapabilities,
  type LearnerForwardOptions,
  type LearnerModel,
  type LearnerSession,
  type LoadOptions,
  type LoraConfig,
  type OptimizerConfig,
  type PackedRow,
  type RowBackward,
  type RowForward,
  type StepReport,
  TrainerError,
  type VersionFolders,
  writeDurableText,
} from '@trainyard/trainer';

import { type AdamParams, type RemoteModel, RESTING } from '../transport/remote-model.ts';
import { wireFault } from '../wire/wire-fault.ts';
import type { AdapterIntake } from './adapter-intake.ts';
import { deleteCheckpoint, fetchAdapter } from './checkpoints.ts';
import { forwardDatums, type GatheredSequence, gradientDatums, LOSS_OF } from './gradient-datums.ts';
import { scalingStep } from './initial-scale.ts';
import { RemoteSlots } from './remote-slots.ts';
import type { ProvenServer } from './prove-server.ts';
import { type UnrolledSequence, unrollRows } from './unroll-rows.ts';
import { readRecord, RECORD_FILE, type VersionRecord } from './version-record.ts';

/** Larger ranks cost more than the adapted layers. */
const MAX_RANK = 256;
/** Servers keep the square of a gradient's norm as float32, so no norm exceeds this. */
const NO_CLIP = 1e19;

export interface TinkerLearnerParts {
  readonly server: ProvenServer;
  readonly model: LearnerModel;
  readonly versions: VersionFolders;
  readonly intake: AdapterIntake;
}

/** An unserved version is only for resuming a job; servers with lifetimes delete it after two weeks. */
const SNAPSHOT_SECONDS = 14 * 86_400;

/** Kept from forward for backward. */
interface KeptSequence extends UnrolledSequence {
  readonly logprobs: Float32Array;
}

/**
 * An adapter in training on a server of the Tinker protocol. Tries are unrolled to plain sequences. Backward
 * only stores ∂loss/∂logprob, and the step sends all gradients in one request right before itself: until then
 * nothing accumulates on the server, so dropping gradients is free.
 */
export class TinkerLearner implements LearnerSession {
  readonly model: LearnerModel;
  readonly lora: LoraConfig;
  readonly capabilities: LearnerCapabilities;
  readonly #parts: TinkerLearnerParts;
  readonly #slots: RemoteSlots;
  #numSteps = 0;
  #jobKind = 'rl';
  /** Sequences of the last forward with `keep`. */
  #kept: readonly KeptSequence[] = [];
  #numKeptRows = 0;
  #gathered: GatheredSequence[] = [];
  /** Address of a state of the current weights; null: none. */
  #savedAs: string | null = null;
  #spoilt: TrainerError | null = null;
  /** Since the last step. */
  #measures = { numTokens: 0, numRowTokens: 0, numRequests: 0 };

  constructor(lora: LoraConfig, parts: TinkerLearnerParts) {
    const { profile } = parts.server.facts;
    this.model = parts.model;
    this.lora = lora;
    this.#parts = parts;
    const { factor, isMatched } = parts.server.initialScale;
    this.#slots = new RemoteSlots(parts.server, lora, isMatched && factor !== 1 ? scalingStep(factor) : null);
    this.capabilities = {
      losses: 'any',
      targets: LINEAR_NAMES,
      targetSets: profile.targetSets,
      maxRank: MAX_RANK,
      alpha: profile.alpha,
      hasOwnShapes: false,
      entropies: 'none',
      reference: 'versions',
      replay: false,
      maxKeptRows: Infinity,
      initialScale: isMatched ? 1 : 1 / factor,
    };
  }

  get numSteps(): number {
    return this.#numSteps;
  }

  async forward(
    rows: readonly PackedRow[],
    { under = 'trained', keep = 'nothing', signal }: LearnerForwardOptions = {},
  ): Promise<readonly RowForward[]> {
    for (const row of rows) this.#requireTokens(row);
    return await this.#cancellable(signal, async () => {
      const sequences = unrollRows(rows);
      this.#requireLengths(sequences);
      const logprobs = sequences.length === 0 ? [] : await this.#logprobs(sequences, under, signal);
      const outputs = rows.map((row) => new Float32Array(row.targets.length));
      sequences.forEach(({ row, trained }, index) => {
        trained.forEach((i, place) => {
          if (i >= 0) outputs[row]![i] = logprobs[index]![place]!;
        });
      });
      if (keep !== 'nothing') {
        this.#kept = sequences.map((sequence, index) => ({ ...sequence, logprobs: logprobs[index]! }));
        this.#numKeptRows = rows.length;
        this.#measures.numRowTokens += rows.reduce((total, { tokenIds }) => total + tokenIds.length, 0);
      }
      return outputs.map((output) => ({ logprobs: output, entropies: null }));
    });
  }

  async backward(gradients: readonly RowBackward[], { signal }: CallOptions = {}): Promise<void> {
    if (signal?.aborted) this.#gathered = [];
    await this.#cancellable(signal, async () => {
      if (gradients.length !== this.#numKeptRows) throw new Error('backward follows a forward that kept its rows');
      for (const { row, trained, tokens, targets, logprobs } of this.#kept) {
        const { lossGradient } = gradients[row]!;
        this.#gathered.push({
          tokens,
          targets,
          logprobs,
          lossGradient: Float32Array.from(trained, (i) => (i < 0 ? 0 : lossGradient[i]!)),
        });
      }
      this.#kept = [];
      this.#numKeptRows = 0;
    });
  }

  async step(config: OptimizerConfig, { signal }: CallOptions = {}): Promise<StepReport> {
    return await this.#cancellable(signal, async () => {
      const { facts, clipping } = this.#parts.server;
      const sequences = this.#gathered.filter(({ lossGradient }) => lossGradient.some((slope) => slope !== 0));
      const clips = config.maxGradNorm < NO_CLIP;
      const measured = clips && clipping === 'measured' ? await this.#measureNorm(sequences, signal) : null;
      if (measured !== null) requireFinite('the gradient norm', measured);
      const factor = measured === null ? 1 : Math.min(1, config.maxGradNorm / (measured + 1e-6));
      const model = await this.#slots.trained(signal);
      const params = adamParams(config, clips && clipping === 'step');
      this.#gathered = [];
      const metrics = await this.#decisively(async () => {
        const passed = await this.#post(model, sequences, factor, signal);
        this.#savedAs = null;
        const stepped = await model.step(params, { signal });
        await passed();
        return await stepped();
      });
      this.#numSteps++;
      const reported = facts.profile.gradNormMetrics.map((name) => metrics[name]).find((value) => value !== undefined);
      const gradNorm = measured ?? reported ?? null;
      if (gradNorm !== null) requireFinite('the gradient norm', gradNorm);
      return { gradNorm, measures: this.#takeMeasures() };
    });
  }

  async save(
    name: string,
    { isServed = true, metrics = {} }: { isServed?: boolean; metrics?: Readonly<Record<string, number>> } = {},
  ): Promise<AdapterVersion> {
    const { server, versions, intake } = this.#parts;
    const { http, profile } = server.facts;
    const former = await this.#recordOf(name);
    const remoteName = `trainyard-${randomUUID()}`;
    const model = await this.#slots.trained();
    const address = await this.#losing(() =>
      model.saveState(remoteName, { lifetimeSeconds: isServed ? null : SNAPSHOT_SECONDS }),
    );
    let files = null;
    if (isServed) {
      const sampler = await this.#losing(() => model.saveForSampler(remoteName));
      files = await fetchAdapter(http, profile, sampler);
      await deleteCheckpoint(http, sampler);
    }
    const record = {
      url: http.url,
      baseModel: server.facts.baseModel,
      address,
      numSteps: this.#numSteps,
      jobKind: this.#jobKind,
      lora: this.lora,
    };
    const digest = await versions.write(name, (directory) => {
      const written = files === null ? null : intake({ files, lora: this.lora, metrics, outputDirectory: directory });
      const whole: VersionRecord = { ...record, digest: written };
      writeDurableText(join(directory, RECORD_FILE), `${JSON.stringify(whole, null, 2)}\n`);
      return written;
    });
    this.#savedAs = address;
    if (former !== null) await this.#deleteState(former);
    return { name, digest };
  }

  async find(name: string): Promise<AdapterVersion | null> {
    const directory = await this.#parts.versions.find(name);
    if (directory === null) return null;
    const record = readRecord(directory);
    // A version of another learner has no record: it exists, but cannot be resumed here.
    return { name, digest: record === null ? checkpointDigest(directory) : record.digest };
  }

  async load(name: string | null, { jobKind, withFreshOptimizer = false }: LoadOptions): Promise<void> {
    const record = name === null ? null : await this.#requireRecord(name);
    const goesOn = record !== null && record.jobKind === jobKind && !withFreshOptimizer;
    await this.#slots.load(record === null ? null : { address: record.address, withOptimizer: goesOn });
    this.#spoilt = null;
    this.#kept = [];
    this.#numKeptRows = 0;
    this.#gathered = [];
    this.#jobKind = jobKind;
    this.#numSteps = goesOn ? record.numSteps : 0;
    this.#savedAs = record?.address ?? null;
  }

  async discard(name: string): Promise<void> {
    const record = await this.#recordOf(name);
    await this.#parts.versions.remove(name);
    if (record !== null) await this.#deleteState(record);
  }

  async close(): Promise<void> {
    await this.#slots.close();
  }

  async #logprobs(
    sequences: readonly UnrolledSequence[],
    under: LearnerForwardOptions['under'] & {},
    signal: AbortSignal | undefined,
  ): Promise<readonly Float32Array[]> {
    const model =
      under === 'trained'
        ? await this.#slots.trained(signal)
        : await this.#slots.reference(
            under === 'base' ? null : (await this.#requireRecord(under.version)).address,
            signal,
          );
    const before = model.numRequests;
    const pass = await model.pass(forwardDatums(sequences), { lossName: 'cross_entropy', isForwardOnly: true, signal });
    const { logprobs } = await pass();
    this.#count(sequences, model.numRequests - before);
    logprobs.forEach((values, index) => {
      const { tokens } = sequences[index]!;
      if (values.length !== tokens.length)
        throw wireFault(`a sequence of ${tokens.length} tokens has ${values.length} log-probabilities`);
    });
    return logprobs;
  }

  /** @returns a function that waits until the gradient has accumulated */
  async #post(
    model: RemoteModel,
    sequences: readonly GatheredSequence[],
    factor: number,
    signal: AbortSignal | undefined,
  ): Promise<() => Promise<unknown>> {
    if (sequences.length === 0) return async () => undefined;
    const { recipe } = this.#parts.server;
    const before = model.numRequests;
    const datums = gradientDatums(sequences, { recipe, factor });
    const wait = await model.pass(datums, { lossName: LOSS_OF[recipe], isForwardOnly: false, signal });
    this.#count(sequences, model.numRequests - before);
    return wait;
  }

  /**
   * Norm of a gradient, measured on a copy of the model with a step of length 0: only a step reports it, too late
   * for clipping on the model itself.
   */
  async #measureNorm(sequences: readonly GatheredSequence[], signal: AbortSignal | undefined): Promise<number> {
    const { facts } = this.#parts.server;
    if (sequences.length === 0) return 0;
    const model = await this.#slots.trained(signal);
    const isSaved = this.#savedAs !== null;
    const address =
      this.#savedAs ??
      (await this.#losing(() =>
        model.saveState(`trainyard-${randomUUID()}`, { lifetimeSeconds: SNAPSHOT_SECONDS, signal }),
      ));
    const copy = await this.#slots.copy(address, signal);
    try {
      const passed = await this.#post(copy, sequences, 1, signal);
      const stepped = await copy.step(RESTING, { signal });
      await passed();
      const metrics = await stepped();
      const norm = facts.profile.gradNormMetrics.map((name) => metrics[name]).find((value) => value !== undefined);
      if (norm === undefined) throw wireFault('a step reports no gradient norm, which clipping needs');
      return norm;
    } finally {
      await copy.unload();
      if (!isSaved) await this.#deleteAddress(address);
    }
  }

  #count(sequences: readonly Pick<UnrolledSequence, 'tokens'>[], numRequests: number): void {
    this.#measures.numTokens += sequences.reduce((total, { tokens }) => total + tokens.length, 0);
    this.#measures.numRequests += numRequests;
  }

  #takeMeasures(): Record<string, number> {
    const { numTokens, numRowTokens, numRequests } = this.#measures;
    this.#measures = { numTokens: 0, numRowTokens: 0, numRequests: 0 };
    return { num_remote_tokens: numTokens, num_remote_requests: numRequests, num_remote_row_tokens: numRowTokens };
  }

  async #recordOf(name: string): Promise<VersionRecord | null> {
    const directory = await this.#parts.versions.find(name);
    return directory === null ? null : readRecord(directory);
  }

  async #requireRecord(name: string): Promise<VersionRecord> {
    const { facts } = this.#parts.server;
    const directory = await this.#parts.versions.find(name);
    if (directory === null)
      throw new TrainerError('trainer.checkpoint_unreadable', `the adapter version ${name} does not exist`);
    const record = readRecord(directory);
    if (record?.url === facts.http.url && record.baseModel === facts.baseModel) return record;
    throw new TrainerError(
      'trainer.config_invalid',
      `the weights to continue from were ${record === null ? 'not trained by a Tinker server, and it cannot import weights' : 'trained by another Tinker server, which has their state'}. ` +
        'Continue this model where it was started, or start a new one here',
    );
  }

  async #deleteState(record: VersionRecord): Promise<void> {
    if (record.url === this.#parts.server.facts.http.url) await this.#deleteAddress(record.address);
  }

  async #deleteAddress(address: string): Promise<void> {
    await deleteCheckpoint(this.#parts.server.facts.http, address);
  }

  #requireTokens({ tokenIds, targets }: PackedRow): void {
    const { vocabSize } = this.model;
    for (const ids of [tokenIds, targets])
      for (const id of ids)
        if (id < 0 || id >= vocabSize)
          throw new TrainerError(
            'trainer.token_out_of_range',
            `token ${id} is outside the vocabulary of ${vocabSize} tokens`,
          );
  }

  #requireLengths(sequences: readonly UnrolledSequence[]): void {
    const { maxTokens } = this.#parts.server.facts;
    const longest = sequences.reduce((max, { tokens }) => Math.max(max, tokens.length), 0);
    if (maxTokens === null || longest <= maxTokens) return;
    throw new TrainerError(
      'trainer.config_invalid',
      `a sequence has ${longest} tokens, but the Tinker server accepts at most ${maxTokens}. Lower \`max_sequence_length\``,
    );
  }

  /** Runs work that changes the weights on the server; after a failure they are unknown. */
  async #decisively<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.#spoilt = new TrainerError(
        'trainer.host_lost',
        `a step was interrupted (${why}), so the weights are unknown`,
        {
          cause: error,
        },
      );
      throw error;
    }
  }

  /** Makes the session unusable after a failure of the server. */
  async #losing<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof TrainerError && error.retry === 'resume') this.#spoilt ??= error;
      throw error;
    }
  }

  /** Converts errors of an aborted call to `trainer.cancelled`. */
  async #cancellable<Result>(signal: AbortSignal | undefined, work: () => Promise<Result>): Promise<Result> {
    try {
      signal?.throwIfAborted();
      if (this.#spoilt !== null) throw this.#spoilt;
      return await this.#losing(work);
    } catch (error) {
      if (signal?.aborted) throw new TrainerError('trainer.cancelled', 'the call was cancelled', { cause: error });
      throw error;
    }
  }
}

function adamParams(config: OptimizerConfig, clips: boolean): AdamParams {
  return {
    learning_rate: config.learningRate,
    beta1: config.adamBeta1,
    beta2: config.adamBeta2,
    eps: config.adamEpsilon,
    weight_decay: config.weightDecay,
    grad_clip_norm: clips ? config.maxGradNorm : 0,
  };
}

function requireFinite(what: string, value: number): void {
  if (Number.isFinite(value)) return;
  throw new TrainerError(
    'trainer.non_finite',
    `${what} is ${value}. The job stops, and the last checkpoint stays in use`,
  );
}
