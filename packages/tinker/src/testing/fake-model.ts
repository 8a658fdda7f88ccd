import type { EmbeddedLearner, PackedRow, TrainablePolicy } from '@trainyard/trainer';

import type { AdamParams } from '../transport/remote-model.ts';
import type { FakeDialect } from './fake-dialect.ts';
import type { PassOutput, ReceivedDatum, ReceivedPass } from './server-wire.ts';

/** One adapter, computed by the embedded learner. */
export class FakeModel {
  readonly learner: EmbeddedLearner;
  readonly #policy: TrainablePolicy;
  readonly #dialect: FakeDialect;
  #numGathered = 0;

  constructor(policy: TrainablePolicy, learner: EmbeddedLearner, dialect: FakeDialect) {
    this.#policy = policy;
    this.learner = learner;
    this.#dialect = dialect;
  }

  async pass({ datums, lossName, isForwardOnly }: ReceivedPass): Promise<PassOutput> {
    const logprobs: Float32Array[] = [];
    for (const datum of datums) {
      const keep = isForwardOnly ? 'nothing' : 'gradients';
      const [output] = await this.learner.forward([rowOf(datum)], { keep });
      logprobs.push(output!.logprobs);
      if (isForwardOnly) continue;
      const lossGradient = this.#slopes(datum, lossName, output!.logprobs);
      await this.learner.backward([{ lossGradient, entropyGradient: null }]);
      this.#numGathered++;
    }
    return { logprobs, metrics: {} };
  }

  async step(params: AdamParams): Promise<Record<string, number>> {
    if (this.#dialect.gradients === 'mean' && this.#numGathered > 0)
      for (const { gradient } of this.#policy.lora.tensors)
        gradient.forEach((value, i) => (gradient[i] = value / this.#numGathered));
    this.#numGathered = 0;
    const clips = this.#dialect.clips && params.grad_clip_norm > 0;
    const { gradNorm } = await this.learner.step({
      learningRate: params.learning_rate,
      adamBeta1: params.beta1,
      adamBeta2: params.beta2,
      adamEpsilon: params.eps,
      weightDecay: this.#dialect.decays !== false ? params.weight_decay : 0,
      maxGradNorm: clips ? params.grad_clip_norm : Infinity,
    });
    const { gradNormMetric } = this.#dialect;
    const rate = this.#dialect.isSkyrl ? { 'skyrl.ai/learning_rate': params.learning_rate } : {};
    return { ...(gradNormMetric === null ? {} : { [gradNormMetric]: gradNorm! }), ...rate };
  }

  async close(): Promise<void> {
    await this.learner.close();
  }

  #slopes({ inputs, tokens }: ReceivedDatum, lossName: string, logprobs: Float32Array): Float32Array {
    const weights = inputs['weights'] ?? tokens.map(() => 1);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    // The same division as in SkyRL.
    const divisor = this.#dialect.gradients === 'mean' ? Math.max(total, 1e-9) : 1;
    return logprobs.map((logprob, i) => {
      if (lossName === 'cross_entropy') return -weights[i]! / divisor;
      const ratio = Math.exp(logprob - inputs['logprobs']![i]!);
      return (-ratio * inputs['advantages']![i]!) / divisor;
    });
  }
}

function rowOf({ tokens, inputs }: ReceivedDatum): PackedRow {
  const places = Int32Array.from(tokens.keys());
  return {
    tokenIds: Int32Array.from(tokens),
    positions: places,
    parents: places.map((place) => place - 1),
    sources: places,
    targets: Int32Array.from(inputs['target_tokens']!),
  };
}
