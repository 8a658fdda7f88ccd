import type { Choice } from './choice.ts';
import { EngineError, createTokenMask, noTokenLeft } from '@trainyard/backend';
import type { TokenLogprob, StopVerdict, TokenMask } from '@trainyard/backend';
import { finiteLogSum, type LogprobWriter } from '../sampling/logprobs.ts';
import { maskRow } from '../sampling/mask-row.ts';
import type { RowDraw } from '../runner/model-runner.ts';
import { DrawKey } from '../sampling/random.ts';
import type { SamplerBuffers } from '../sampling/sampler.ts';
import { sampleToken } from '../sampling/sampler.ts';
import { isNeutral, type TokenAdjustments } from '@trainyard/decoder';
import { isLogitsMode } from '@trainyard/protocol/fields';

export interface SampledToken {
  token: number;
  /** One entry if the request wants logprobs. */
  logprobs: TokenLogprob[] | null;
  verdict: StopVerdict;
}

export class ChoiceSampler {
  readonly #buffers: SamplerBuffers;
  readonly #writer: LogprobWriter;
  readonly #mask: TokenMask;

  constructor(vocabSize: number, buffers: SamplerBuffers, writer: LogprobWriter) {
    this.#buffers = buffers;
    this.#writer = writer;
    this.#mask = createTokenMask(vocabSize);
  }

  /**
   * @param row logits, `[V]`; undefined afterwards
   * @throws {EngineError} engine.no_token_left if masks leave none; engine.internal if the logits are not numbers,
   * or the constraint fails
   */
  next(choice: Choice, row: Float32Array): SampledToken {
    const { text, owner } = choice;
    const constraint = text?.constraint ?? null;
    const { sampling, logprobs: numTop, logprobTokenIds, logprobsMode } = owner.request;
    const masking = constraint?.fillMask(this.#mask) ?? 'any';
    if (masking !== 'any') maskRow(row, this.#mask);
    // A completed constraint leaves only end tokens, which no other mask may remove.
    const others = choice.adjustments;
    const adjustments = masking === 'complete' ? { ...others, allowed: null, banned: [], masked: null } : others;
    const key = constraint?.isWaiting ? this.#admittedKey(choice, row, adjustments) : keyOf(choice);
    const logprobs = numTop === null ? null : logprobsMode;
    const drawing = { settings: sampling, key, adjustments, logprobs, tracer: choice.tracer };
    const { token, logSumExp, centre } = sampleToken(row, drawing, this.#buffers);
    if (token < 0) throw noTokenPossible(row, adjustments, constraint !== null, choice.numSampled);
    if (numTop === null) return { token, logprobs: null, verdict: choice.take(token) };
    // The draw used masks; the raw row may still contain NaN.
    const logSum = finiteLogSum(logSumExp);
    const entry = this.#writer.entry(row, { token, logSum, top: logprobTokenIds ?? numTop }, this.#buffers);
    if (isLogitsMode(logprobsMode)) entry.logitSum = logSum + centre;
    return { token, logprobs: [entry], verdict: choice.take(token) };
  }

  /** Null if a mask, a penalty, logprobs or a trace needs the logits here. */
  drawOf(choice: Choice): RowDraw | null {
    const { sampling, logprobs } = choice.owner.request;
    const isPlain =
      logprobs === null && !choice.text?.constraint && choice.tracer === null && isNeutral(choice.adjustments);
    return isPlain ? { settings: sampling, key: keyOf(choice) } : null;
  }

  /** Advances by a token drawn on the device. @throws {EngineError} engine.internal if none was possible */
  take(choice: Choice, token: number): SampledToken {
    if (token < 0) throw new EngineError('engine.internal', 'no token is possible: the model gave no finite logit');
    return { token, logprobs: null, verdict: choice.take(token) };
  }

  /** Draws until the token is one after which the constraint can start; masks the others permanently. */
  #admittedKey(choice: Choice, row: Float32Array, adjustments: TokenAdjustments): DrawKey {
    for (;;) {
      const key = isGreedy(choice) ? UNUSED : choice.random.drawKey();
      const settings = choice.owner.request.sampling;
      const { token } = sampleToken(row, { settings, key, adjustments }, this.#buffers);
      if (token < 0 || choice.text!.constraint!.admits(token)) return key;
      row[token] = -Infinity;
    }
  }
}

const UNUSED = new DrawKey(0, 0);

function keyOf(choice: Choice): DrawKey {
  return isGreedy(choice) ? UNUSED : choice.nextKey;
}

function isGreedy({ owner }: Choice): boolean {
  return owner.request.sampling.temperature === 0;
}

/** @param row as the model gave it, except for the constraint's mask */
function noTokenPossible(
  row: Float32Array,
  { allowed, banned, masked }: TokenAdjustments,
  isConstrained: boolean,
  numSampled: number,
): EngineError {
  if (row.some((logit) => Number.isNaN(logit) || logit === Infinity))
    return new EngineError('engine.internal', 'no token can be sampled: the logits are not numbers');
  const masks = {
    allowed: allowed !== null,
    banned: banned.length > 0,
    ends: masked !== null,
    constraint: isConstrained,
  };
  if (!Object.values(masks).includes(true))
    return new EngineError('engine.internal', 'no token is possible: the model gave no finite logit');
  return noTokenLeft(masks, numSampled);
}
