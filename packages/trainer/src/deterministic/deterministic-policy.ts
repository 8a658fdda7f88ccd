import type { Architecture } from '@trainyard/transformer';
import type {
  BackwardOptions,
  ForwardOptions,
  ForwardResult,
  LoraParameters,
  PackedRow,
  TrainablePolicy,
} from '../model/policy-model.ts';
import { decoderAdapter } from './decoder-adapter.ts';
import type { RowDecoder } from './row-decoder.ts';

/**
 * A policy whose log-probabilities equal the sampler's to the last bit: the sampler's code computes each row,
 * and the policy adds entropies and the state for backward. So ratios of tokens sampled under the same weights
 * are exactly 1. Gradients come from the policy's pass, which differs by about 1e-6 and uses the sampler's experts.
 */
export class DeterministicPolicy implements TrainablePolicy {
  readonly #policy: TrainablePolicy;
  readonly #rows: RowDecoder;

  /** @param policy closed with this object @param rows of the same model; not closed */
  constructor(policy: TrainablePolicy, rows: RowDecoder) {
    this.#policy = policy;
    this.#rows = rows;
  }

  get architecture(): Architecture {
    return this.#policy.architecture;
  }

  get lora(): LoraParameters {
    return this.#policy.lora;
  }

  async forward(row: PackedRow, options: ForwardOptions = {}): Promise<ForwardResult> {
    const adapter = options.withoutAdapter === true ? null : decoderAdapter(this.lora, this.architecture);
    const { gate, signal } = options;
    const turn = { ...(gate === undefined ? {} : { gate }), ...(signal === undefined ? {} : { signal }) };
    const { logprobs, experts } = await this.#rows.compute(row, adapter, turn);
    const { entropies } = await this.#policy.forward(row, { ...options, experts });
    return { logprobs, entropies };
  }

  async backward(lossGradient: Float32Array, options?: BackwardOptions): Promise<void> {
    await this.#policy.backward(lossGradient, options);
  }

  close(): void {
    this.#policy.close();
  }
}
