import { strict as assert } from 'node:assert';
import { createHash } from 'node:crypto';
import { TrainerError } from '../contract/errors.ts';
import type {
  LearnerForwardOptions,
  LearnerSession,
  LoadOptions,
  RowBackward,
  RowForward,
} from '../learner/learner-session.ts';
import type { LoraTensor, PackedRow } from '../model/policy-model.ts';
import { adamWStep, freshOptimizerState, gradientNorm, type OptimizerConfig } from '../optimizer/adamw.ts';
import { seededRandom } from '../packing/random.ts';
import { BIGRAM_ARCHITECTURE, BIGRAM_LORA } from './bigram-policy.ts';

const SIZE = 8;

type Saved = { readonly table: LoraTensor; readonly optimizer: ReturnType<typeof freshOptimizerState> };

/**
 * The minimum of `LearnerSession`, as a remote service that takes many rows at once and reports neither
 * entropies nor sampling. The model is a table of log-odds: the next class of tokens (id modulo 8) by the
 * current class.
 */
export class ScriptedLearner implements LearnerSession {
  readonly model = BIGRAM_ARCHITECTURE;
  readonly lora = BIGRAM_LORA;
  readonly capabilities = {
    losses: 'any',
    targets: BIGRAM_LORA.targets,
    targetSets: 'any',
    maxRank: BIGRAM_LORA.rank,
    alpha: null,
    hasOwnShapes: false,
    entropies: 'none',
    reference: 'base',
    replay: false,
    maxKeptRows: Infinity,
    initialScale: 1,
  } as const;
  /** So far. */
  readonly calls: string[] = [];
  readonly #versions: Map<string, Saved>;
  #table = freshTable();
  #optimizer = freshOptimizerState([this.#table]);
  #kept: readonly PackedRow[] = [];

  /** @param versions shared by sessions of one service */
  constructor(versions = new Map<string, Saved>()) {
    this.#versions = versions;
  }

  get numSteps(): number {
    return this.#optimizer.numSteps;
  }

  async forward(
    rows: readonly PackedRow[],
    { under = 'trained', keep = 'nothing', signal }: LearnerForwardOptions = {},
  ): Promise<RowForward[]> {
    this.#call('forward', signal);
    for (const { tokenIds, targets } of rows)
      if ([...tokenIds, ...targets].some((id) => id >= this.model.vocabSize))
        throw new TrainerError('trainer.token_out_of_range', 'a token id is not of the vocabulary');
    if (typeof under === 'object') throw new TrainerError('trainer.checkpoint_unreadable', 'only the base model');
    if (keep !== 'nothing') this.#kept = rows;
    const values = under === 'base' ? freshTable().value : this.#table.value;
    const logprob = (row: PackedRow, i: number): number =>
      Math.log(distribution(values, row, i)[row.targets[i]! % SIZE]!);
    return rows.map((row) => ({
      logprobs: Float32Array.from(row.targets, (_, i) => logprob(row, i)),
      entropies: null,
    }));
  }

  async backward(gradients: readonly RowBackward[], { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    if (signal?.aborted) this.#table.gradient.fill(0);
    this.#call('backward', signal);
    assert(gradients.length === this.#kept.length, 'backward follows a forward that kept');
    gradients.forEach(({ lossGradient }, r) => {
      const row = this.#kept[r]!;
      lossGradient.forEach((slope, i) => {
        const at = placeOf(row, i);
        distribution(this.#table.value, row, i).forEach((p, to) => {
          this.#table.gradient[at + to]! += slope * (Number(to === row.targets[i]! % SIZE) - p);
        });
      });
    });
    this.#kept = [];
  }

  async step(config: OptimizerConfig, { signal }: { signal?: AbortSignal } = {}): Promise<{ gradNorm: number }> {
    this.#call('step', signal);
    const gradNorm = gradientNorm([this.#table]);
    adamWStep([this.#table], this.#optimizer, gradNorm, config);
    this.#table.gradient.fill(0);
    return { gradNorm };
  }

  async save(name: string): Promise<{ name: string; digest: string }> {
    this.#call('save');
    this.#versions.set(name, structuredClone({ table: this.#table, optimizer: this.#optimizer }));
    return (await this.find(name))!;
  }

  async find(name: string): Promise<{ name: string; digest: string } | null> {
    const version = this.#versions.get(name);
    return version === undefined
      ? null
      : { name, digest: createHash('sha256').update(version.table.value).digest('hex') };
  }

  async load(name: string | null, { jobKind, withFreshOptimizer = false }: LoadOptions): Promise<void> {
    this.#call('load');
    const version =
      name === null ? { table: freshTable(), optimizer: null } : structuredClone(this.#versions.get(name));
    if (version === undefined) throw new TrainerError('trainer.checkpoint_unreadable', `there is no version ${name}`);
    this.#table = { ...version.table, gradient: new Float32Array(SIZE * SIZE) };
    const goesOn = version.optimizer?.jobKind === jobKind && !withFreshOptimizer;
    this.#optimizer = goesOn ? version.optimizer : freshOptimizerState([this.#table], jobKind);
  }

  async discard(name: string): Promise<void> {
    this.#versions.delete(name);
  }

  async close(): Promise<void> {}

  #call(name: string, signal?: AbortSignal): void {
    this.calls.push(name);
    if (signal?.aborted) throw new TrainerError('trainer.cancelled', `${name} was cancelled`);
  }
}

function freshTable(): LoraTensor {
  const random = seededRandom(7);
  const value = Float32Array.from({ length: SIZE * SIZE }, () => 2 * random() - 1);
  const gradient = new Float32Array(SIZE * SIZE);
  return {
    name: 'layers.0.q.a',
    layer: 0,
    linear: 'q',
    half: 'a',
    valueHeads: null,
    dims: [SIZE, SIZE],
    value,
    gradient,
  };
}

/** Start of the log-odds after the source of a trained token. */
const placeOf = (row: PackedRow, i: number): number => SIZE * (row.tokenIds[row.sources[i]!]! % SIZE);

function distribution(values: Float32Array, row: PackedRow, i: number): number[] {
  const odds = Array.from(values.subarray(placeOf(row, i), placeOf(row, i) + SIZE), Math.exp);
  const sum = odds.reduce((all, odd) => all + odd, 0);
  return odds.map((odd) => odd / sum);
}
