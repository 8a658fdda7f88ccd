import {
  type AdapterObject,
  ALL_LINEAR,
  briefly,
  type LoraObject,
  type LoraRequest,
  type ValidationItem,
} from '@trainyard/protocol';
import type { LoraShape, Model, TrainerLimits } from '@trainyard/store';
import {
  ALL_LINEAR_NAMES,
  CONVOLUTION_LINEAR_NAMES,
  DEFAULT_LORA_CONFIG,
  DELTA_LINEAR_NAMES,
  FUSED_LINEAR_NAMES,
  type LinearName,
  type ModulePattern,
  targetModule,
  targetModules,
} from '@trainyard/trainer';

import type { BaseModel } from '../../seams/contract/base-models.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { readModulePattern } from './module-pattern.ts';

/** Default scale of the adapter's output, alpha / rank. */
const DEFAULT_SCALE = DEFAULT_LORA_CONFIG.alpha / DEFAULT_LORA_CONFIG.rank;

/**
 * Shape that a registration requests. Null and absent members mean their defaults.
 * @param limits of the trainer, applied to the defaults; null: none
 * @throws {RequestError} `request.invalid` for a repeated target, a module that the base model has not, and members
 * that no adapter here can have
 */
export function readLoraShape(
  wire: LoraRequest | null | undefined,
  limits: Pick<TrainerLimits, 'alpha' | 'maxRank'> | null,
  base: Pick<BaseModel, 'id' | 'linearsByLayer'>,
): LoraShape {
  if (wire) refuseUnsupportedAdapter(wire, base);
  const rank = wire?.rank ?? Math.min(DEFAULT_LORA_CONFIG.rank, limits?.maxRank ?? Infinity);
  const isRankStabilised = wire?.use_rslora === true;
  // A rank-stabilised adapter has one alpha for all ranks.
  const byDefault = isRankStabilised ? DEFAULT_LORA_CONFIG.alpha : rank * DEFAULT_SCALE;
  const linears = linearsOf(base);
  const targets = readTargets(wire?.targets, linears ?? DEFAULT_LORA_CONFIG.targets);
  if (linears !== null) refuseAbsentLayers(targets, linears, base.id);
  return {
    rank,
    alpha: wire?.alpha ?? limits?.alpha ?? byDefault,
    targets,
    initSeed: wire?.init_seed ?? DEFAULT_LORA_CONFIG.initSeed,
    ...(isRankStabilised ? { isRankStabilised } : {}),
    ...given('rankPattern', readModulePattern('rank_pattern', wire?.rank_pattern, { targets, ...base })),
    ...given('alphaPattern', readModulePattern('alpha_pattern', wire?.alpha_pattern, { targets, ...base })),
  };
}

/** Refuses members that would change an adapter in a way that nothing here computes, with the reason. */
export function refuseUnsupportedAdapter(wire: LoraRequest, { id }: Pick<BaseModel, 'id'>): void {
  const items: ValidationItem[] = [];
  const refuse = (member: string, msg: string): void => {
    items.push({ loc: ['body', 'lora', member], msg, type: 'value_error' });
  };
  if ((wire.modules_to_save ?? []).length > 0) {
    refuse(
      'modules_to_save',
      `Input should be absent or empty, got ${briefly(wire.modules_to_save!.join(', '))}: it trains whole copies of layers, but samplers share the frozen weights of the base model between all adapters. Raise \`rank\` instead`,
    );
  }
  if (wire.experts === true)
    refuse('experts', `Input should be false: the base model \`${id}\` has no experts that can have adapters`);
  if (items.length > 0) throw RequestError.invalid(items);
}

const given = <Name extends string>(name: Name, pattern: ModulePattern | null) =>
  (pattern === null ? {} : { [name]: pattern }) as { readonly [Key in Name]?: ModulePattern };

/**
 * Refuses members that differ from the shape of a checkpoint or model.
 * @param options `owner` of the shape, for the message; `base` model, null: unknown
 * @returns the failed checks, one per member
 */
export function contradictions(
  wire: LoraRequest,
  shape: LoraShape,
  { owner, base }: { readonly owner: string; readonly base: Pick<BaseModel, 'linearsByLayer'> | null },
): ValidationItem[] {
  const targets = shape.targets as readonly LinearName[];
  const families = [DEFAULT_LORA_CONFIG.targets, FUSED_LINEAR_NAMES, CONVOLUTION_LINEAR_NAMES, DELTA_LINEAR_NAMES];
  const linears =
    linearsOf(base) ?? families.find((all) => targets.every((name) => all.includes(name))) ?? families[0]!;
  const patternOf = (name: 'rank_pattern' | 'alpha_pattern'): string | null =>
    wire[name] ? JSON.stringify(readModulePattern(name, wire[name], { targets }) ?? {}) : null;
  const asked: Record<string, unknown> = {
    rank: wire.rank,
    alpha: wire.alpha,
    targets: wire.targets ? toTargets(readTargets(wire.targets, linears)).join(', ') : null,
    use_rslora: wire.use_rslora,
    rank_pattern: patternOf('rank_pattern'),
    alpha_pattern: patternOf('alpha_pattern'),
    init_seed: wire.init_seed,
  };
  const has: Record<string, unknown> = {
    rank: shape.rank,
    alpha: shape.alpha,
    targets: toTargets(shape.targets).join(', '),
    use_rslora: shape.isRankStabilised ?? false,
    rank_pattern: JSON.stringify(shape.rankPattern ?? {}),
    alpha_pattern: JSON.stringify(shape.alphaPattern ?? {}),
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
  return {
    ...toLoraShapeObject(model.lora),
    dropout: 0,
    init_seed: model.lora.initSeed,
    init_from: model.warmStart?.source ?? null,
  };
}

export function toLoraShapeObject(lora: LoraShape): NonNullable<AdapterObject['lora']> {
  return {
    rank: lora.rank,
    alpha: lora.alpha,
    targets: toTargets(lora.targets),
    use_rslora: lora.isRankStabilised ?? false,
    rank_pattern: { ...lora.rankPattern },
    alpha_pattern: { ...lora.alphaPattern },
  };
}

/** Linear layers that at least one block has; null: unknown. */
function linearsOf(base: Pick<BaseModel, 'linearsByLayer'> | null): readonly LinearName[] | null {
  const byLayer = base?.linearsByLayer ?? null;
  return byLayer && ALL_LINEAR_NAMES.filter((name) => byLayer.some((linears) => linears.includes(name)));
}

function refuseAbsentLayers(targets: readonly LinearName[], linears: readonly LinearName[], id: string): void {
  const absent = targets.filter((name) => !linears.includes(name));
  if (absent.length === 0) return;
  const msg = `Input should be among ${toTargets(linears).join(', ')}: the base model \`${id}\` has no ${toTargets(absent).join(', ')}`;
  throw RequestError.invalid([{ loc: ['body', 'lora', 'targets'], msg, type: 'value_error' }]);
}

/**
 * In the order in which a block applies them, which is that of the adapter's files.
 * Linear layers of different families share names: those of the base model are meant, if it has some.
 * @param linears all linear layers of a block
 */
function readTargets(wire: LoraRequest['targets'], linears: readonly LinearName[]): readonly LinearName[] {
  if (wire === undefined || wire === null || wire === ALL_LINEAR) return linears;
  const targets: readonly string[] = typeof wire === 'string' ? [wire] : wire;
  if (new Set(targets).size < targets.length) {
    throw RequestError.invalid([
      { loc: ['body', 'lora', 'targets'], msg: 'Input should name each layer once', type: 'value_error' },
    ]);
  }
  const named = ALL_LINEAR_NAMES.filter((name) => targets.includes(targetModule(name)));
  const known = targetModules(linears);
  return named.filter((name) => linears.includes(name) || !known.includes(targetModule(name)));
}

export function toTargets(targets: readonly string[]): string[] {
  return targetModules(ALL_LINEAR_NAMES.filter((name) => targets.includes(name)));
}
