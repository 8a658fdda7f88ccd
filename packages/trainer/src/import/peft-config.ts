import { shown } from '@trainyard/native';
import { LEAST_LORA_ALPHA } from '@trainyard/protocol/fields';
import { type ModuleShape, scaleOf } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import { adaptedModules, type ModuleOptions } from './peft-modules.ts';
import { firstMatches } from './python-patterns.ts';

export interface PeftConfig {
  /** Shape of modules that no pattern overrides. */
  readonly shape: ModuleShape;
  readonly isRankStabilised: boolean;
  /**
   * Shapes by full module names (`model.layers.0.self_attn.q_proj`); null for those without an adapter.
   *
   * @throws {TrainerError} `trainer.adapter_invalid`
   */
  shapesOf(names: readonly string[]): (ModuleShape | null)[];
}

// Above 256 an adapter of most models is as large as the adapted matrices.
const MAX_RANK = 256;
const MAX_LORA_ALPHA = 1e6;

/** Any value is accepted: it does not change the adapter's computation. */
const INFORMATIVE: ReadonlySet<string> = new Set([
  'auto_mapping',
  'base_model_name_or_path',
  'revision',
  'inference_mode',
  'peft_version',
  'lora_dropout', // training only
  'eva_config', // initial values only
  'megatron_core', // a module name, used only with megatron_config
  'qalora_group_size', // used only with use_qalora
  'runtime_config',
]);

/** Leave the base weights unchanged. */
const PLAIN_INITIALISATIONS: readonly unknown[] = [true, false, null, undefined, 'gaussian', 'orthogonal', 'eva'];

/**
 * Refuses by name every option, known or not, that would change the adapter's results in another way.
 *
 * @param text of adapter_config.json, may start with a byte order mark
 * @throws {TrainerError} `trainer.adapter_invalid`
 */
export function readPeftConfig(text: string): PeftConfig {
  let config: unknown;
  try {
    config = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw invalid(`adapter_config.json is not JSON: ${(cause as Error).message}`, cause);
  }
  if (typeof config !== 'object' || config === null || Array.isArray(config)) {
    throw invalid('adapter_config.json must hold one object');
  }
  const {
    peft_type: peftType,
    task_type: taskType,
    r,
    lora_alpha,
    use_rslora: isRankStabilised,
    rank_pattern: ranks,
    alpha_pattern: alphas,
    target_modules,
    exclude_modules,
    layers_to_transform,
    layers_pattern,
    ...rest
  } = config as Record<string, unknown>;
  const { init_lora_weights: initialisation, bias, ...options } = rest;
  if (peftType !== 'LORA') throw invalid(`peft_type must be "LORA", got ${shown(peftType)}`);
  if (taskType !== undefined && taskType !== null && taskType !== 'CAUSAL_LM') {
    throw invalid(`task_type must be "CAUSAL_LM", got ${shown(taskType)}`);
  }
  if (bias !== undefined && bias !== 'none') throw invalid(`bias must be "none", got ${shown(bias)}`);
  if (!PLAIN_INITIALISATIONS.includes(initialisation)) {
    throw invalid(
      `init_lora_weights ${shown(initialisation)} may change the base weights, which are fixed here; convert the adapter to plain LoRA`,
    );
  }
  for (const [name, value] of Object.entries(options)) {
    if (INFORMATIVE.has(name) || isNeutral(value)) continue;
    throw invalid(
      `${name.slice(0, 100)} is not supported; it must be absent, null, false or empty, got ${shown(value)}`,
    );
  }
  if (typeof (isRankStabilised ?? false) !== 'boolean')
    throw invalid(`use_rslora must be true or false, got ${shown(isRankStabilised)}`);
  const shapeOf = (rank: number, alpha: number): ModuleShape => ({
    rank,
    alpha,
    scale: scaleOf(rank, alpha, isRankStabilised === true),
  });
  const shape = shapeOf(rankOf('r', r), alphaOf(lora_alpha));
  const rankPattern = patternOf('rank_pattern', ranks, (value) => rankOf('rank_pattern', value));
  const alphaPattern = patternOf('alpha_pattern', alphas, alphaOfPattern);
  const modules: ModuleOptions = { target_modules, exclude_modules, layers_to_transform, layers_pattern };
  return {
    shape,
    isRankStabilised: isRankStabilised === true,
    shapesOf: (names) => {
      const isAdapted = adaptedModules(modules, names);
      const [ownRanks, ownAlphas] = [rankPattern(names), alphaPattern(names)];
      return names.map((_, index) => {
        if (!isAdapted[index]) return null;
        return shapeOf(ownRanks[index] ?? shape.rank, ownAlphas[index] ?? shape.alpha);
      });
    },
  };
}

function rankOf(option: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_RANK) return value;
  throw invalid(`${option} must be a whole number from 1 to ${MAX_RANK}, got ${shown(value)}`);
}

function alphaOf(value: unknown): number {
  if (typeof value === 'number' && value >= LEAST_LORA_ALPHA && value <= MAX_LORA_ALPHA) return value;
  throw invalid(`lora_alpha must be a number from ${LEAST_LORA_ALPHA} to ${MAX_LORA_ALPHA}, got ${shown(value)}`);
}

function alphaOfPattern(value: unknown): number {
  if (typeof value === 'number' && Math.abs(value) <= MAX_LORA_ALPHA) return value;
  throw invalid(`alpha_pattern must be a number from -${MAX_LORA_ALPHA} to ${MAX_LORA_ALPHA}, got ${shown(value)}`);
}

/**
 * Keys are regular expressions for the end of a name; the first match counts. @see
 * peft.utils.other.get_pattern_key
 */
function patternOf(
  option: string,
  value: unknown,
  read: (value: unknown) => number,
): (names: readonly string[]) => (number | null)[] {
  if (isNeutral(value ?? null)) return (names) => names.map(() => null);
  if (typeof value !== 'object' || Array.isArray(value))
    throw invalid(`${option} must be an object of modules and values, got ${shown(value)}`);
  const keys = Object.keys(value as object);
  const values = Object.values(value as object).map(read);
  return (names) => {
    const found = firstMatches(
      option,
      keys.map((key) => `(?:.*\\.)?(?:${key})`),
      names,
    );
    return found.map((index) => values[index] ?? null);
  };
}

function isNeutral(value: unknown): boolean {
  if (value === null || value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value as object).length === 0;
}

function invalid(message: string, cause?: unknown): TrainerError {
  return new TrainerError('trainer.adapter_invalid', message, { cause });
}
