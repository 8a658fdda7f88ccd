import { strict as assert } from 'node:assert';
import type { Architecture, LoraConfig } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import type {
  BackwardOptions,
  ComputeOptions,
  ForwardOptions,
  ForwardResult,
  PackedRow,
} from '../model/policy-model.ts';
import { seededRandom } from '../packing/random.ts';
import type { TrainablePolicy } from '../model/policy-model.ts';

/** Made up: its only adapter, `layers.0.q`, has 8 inputs and 8 outputs. */
export const BIGRAM_ARCHITECTURE: Architecture = {
  name: 'llama',
  vocabSize: 259,
  hiddenSize: 8,
  feedForwardSize: 8,
  numLayers: 1,
  numHeads: 2,
  numKvHeads: 2,
  headSize: 4,
  rotatedSize: null,
  rmsEpsilon: 1e-5,
  ropeBase: 10_000,
  ropeScale: 1,
  yarn: null,
  longRope: null,
  hasFusedLinears: false,
  hasAttentionBias: false,
  hasSinks: false,
  hasOutputGate: false,
  queryKeyNorm: null,
  hasInterleavedHeads: true,
  activation: 'silu',
  norms: { before: true, after: false },
  embeddingScale: 1,
  attentionScale: null,
  residualScale: 1,
  logitScale: 1,
  window: null,
  unrotatedPeriod: null,
  experts: null,
  convolution: null,
  deltaNet: null,
};

export const BIGRAM_LORA: LoraConfig = { rank: 2, alpha: 4, targets: ['q'], initSeed: 3 };

/**
 * A policy with a closed-form gradient: the next token's distribution depends only on the token before it and
 * its position. logits = base + scale · b · a · x; a token's class is its id modulo 8, and the other tokens of a
 * class do not exist.
 */
export class BigramPolicy implements TrainablePolicy {
  readonly architecture = BIGRAM_ARCHITECTURE;
  readonly lora = initialLoraParameters(BIGRAM_ARCHITECTURE, BIGRAM_LORA);
  readonly #size = BIGRAM_ARCHITECTURE.hiddenSize;
  readonly #scale = BIGRAM_LORA.alpha / BIGRAM_LORA.rank;
  #kept: { row: PackedRow; probabilities: Float64Array[] } | null = null;
  numForwards = 0;
  numBackwards = 0;
  isClosed = false;

  async forward(row: PackedRow, options: ForwardOptions = {}): Promise<ForwardResult> {
    this.numForwards++;
    await turn(options);
    for (const id of [...row.tokenIds, ...row.targets])
      if (id < 0 || id >= BIGRAM_ARCHITECTURE.vocabSize)
        throw new TrainerError('trainer.token_out_of_range', `token ${id} is not of the vocabulary`);
    const bySource = new Map<number, Float64Array>();
    for (const source of new Set(row.sources))
      bySource.set(source, this.#distribution(row, source, options.withoutAdapter ?? false));
    const probabilities = Array.from(row.sources, (source) => bySource.get(source)!);
    if (options.keepForBackward) this.#kept = { row, probabilities };
    return {
      logprobs: Float32Array.from(row.targets, (target, i) => Math.log(probabilities[i]![target % this.#size]!)),
      entropies: Float32Array.from(
        probabilities,
        (p) => -p.reduce((total, value) => total + value * Math.log(value), 0),
      ),
    };
  }

  async backward(lossGradient: Float32Array, options: BackwardOptions = {}): Promise<void> {
    this.numBackwards++;
    await turn(options);
    assert(this.#kept !== null, 'backward needs a forward that kept');
    const { row, probabilities } = this.#kept;
    this.#kept = null;
    const [a, b] = this.#adapter();
    const rank = BIGRAM_LORA.rank;
    row.targets.forEach((target, i) => {
      const x = features(row, row.sources[i]!, this.#size);
      const inner = Array.from({ length: rank }, (_, r) =>
        x.reduce((total, value, k) => total + a.value[r * this.#size + k]! * value, 0),
      );
      const p = probabilities[i]!;
      const entropy = -p.reduce((total, value) => total + value * Math.log(value), 0);
      for (let out = 0; out < this.#size; out++) {
        const ofLogprob = Number(out === target % this.#size) - p[out]!;
        const ofEntropy = -p[out]! * (Math.log(p[out]!) + entropy);
        const slope = this.#scale * (lossGradient[i]! * ofLogprob + (options.entropyGradient?.[i] ?? 0) * ofEntropy);
        for (let r = 0; r < rank; r++) {
          b.gradient[out * rank + r]! += slope * inner[r]!;
          for (let k = 0; k < this.#size; k++)
            a.gradient[r * this.#size + k]! += slope * b.value[out * rank + r]! * x[k]!;
        }
      }
    });
  }

  close(): void {
    this.isClosed = true;
  }

  #adapter() {
    const [a, b] = this.lora.tensors;
    assert(a !== undefined && b !== undefined);
    return [a, b] as const;
  }

  #distribution(row: PackedRow, source: number, withoutAdapter: boolean): Float64Array {
    const x = features(row, source, this.#size);
    const base = features(row, source, this.#size, 17);
    const [a, b] = this.#adapter();
    const logits = base.map((logit, out) => {
      let added = 0;
      for (let r = 0; r < BIGRAM_LORA.rank; r++) {
        const inner = x.reduce((total, value, k) => total + a.value[r * this.#size + k]! * value, 0);
        added += b.value[out * BIGRAM_LORA.rank + r]! * inner;
      }
      return logit + (withoutAdapter ? 0 : this.#scale * added);
    });
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
    return logits.map((logit) => Math.exp(logit) / total);
  }
}

/** Fixed pseudo-random numbers in [-1, 1). */
function features(row: PackedRow, index: number, size: number, salt = 0): Float64Array {
  const random = seededRandom(row.tokenIds[index]! * 1009 + row.positions[index]! * 31 + salt);
  return Float64Array.from({ length: size }, () => 2 * random() - 1);
}

async function turn({ gate, signal }: ComputeOptions): Promise<void> {
  if (signal?.aborted) throw new TrainerError('trainer.cancelled', 'cancelled before a layer run');
  await gate?.acquire(signal);
  gate?.release();
}
