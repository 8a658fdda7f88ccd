import {
  LORA_TARGETS,
  type LoraObject,
  type LoraRequest,
  type LoraTarget,
  type ValidationItem,
} from '@trainyard/protocol';
import type { LoraShape, Model, TrainerLimits } from '@trainyard/store';
import { DEFAULT_LORA_CONFIG, LINEAR_NAMES, type LinearName } from '@trainyard/trainer';

import { RequestError } from '../../seams/faults/request-error.ts';

/** Default scale of the adapter's output, alpha / rank. */
const DEFAULT_SCALE = DEFAULT_LORA_CONFIG.alpha / DEFAULT_LORA_CONFIG.rank;

/**
 * Shape that a registration requests. Null and absent members mean their defaults.
 * @param limits of the trainer, applied to the defaults; null: none
 * @throws {RequestError} `request.invalid` for a repeated target
 */
export function readLoraShape(
  wire: LoraRequest | null | undefined,
  limits: Pick<TrainerLimits, 'alpha' | 'maxRank'> | null,
): LoraShape {
  const rank = wire?.rank ?? Math.min(DEFAULT_LORA_CONFIG.rank, limits?.maxRank ?? Infinity);
  return {
    rank,
    alpha: wire?.alpha ?? limits?.alpha ?? rank * DEFAULT_SCALE,
    targets: wire?.targets ? readTargets(wire.targets) : DEFAULT_LORA_CONFIG.targets,
    initSeed: wire?.init_seed ?? DEFAULT_LORA_CONFIG.initSeed,
  };
}

/**
 * Refuses members that differ from the shape of a checkpoint or model.
 * @param owner of the shape, for the message
 * @returns the failed checks, one per member
 */
export function contradictions(wire: LoraRequest, shape: LoraShape, owner: string): ValidationItem[] {
  const asked: Record<string, unknown> = {
    rank: wire.rank,
    alpha: wire.alpha,
    targets: wire.targets ? toTargets(readTargets(wire.targets)).join(', ') : null,
    init_seed: wire.init_seed,
  };
  const has: Record<string, unknown> = {
    rank: shape.rank,
    alpha: shape.alpha,
    targets: toTargets(shape.targets).join(', '),
    init_seed: shape.initSeed,
  };
  return Object.entries(asked)
    .filter(([name, value]) => value !== undefined && value !== null && value !== has[name])
    .map(([name, value]) => ({
      loc: ['body', 'lora', name],
      msg: `Input should be ${String(has[name])} as in ${owner}, or absent`,
      type: 'value_error',
      input: value,
    }));
}

export function toLoraObject(model: Pick<Model, 'lora' | 'warmStart'>): LoraObject {
  const { rank, alpha, targets, initSeed } = model.lora;
  return {
    rank,
    alpha,
    targets: toTargets(targets),
    dropout: 0,
    init_seed: initSeed,
    init_from: model.warmStart?.source ?? null,
  };
}

/** In the order in which a block applies them, which is that of the adapter's files. */
function readTargets(targets: readonly LoraTarget[]): LinearName[] {
  if (new Set(targets).size < targets.length) {
    throw RequestError.invalid([
      { loc: ['body', 'lora', 'targets'], msg: 'Input should name each layer once', type: 'value_error' },
    ]);
  }
  return LINEAR_NAMES.filter((name) => targets.includes(`${name}_proj`));
}

export function toTargets(targets: readonly string[]): string[] {
  return LORA_TARGETS.filter((target) => targets.includes(target.replace('_proj', '')));
}
