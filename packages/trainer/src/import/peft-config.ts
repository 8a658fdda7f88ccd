import { shown } from '@trainyard/native';
import { LEAST_LORA_ALPHA } from '@trainyard/protocol/fields';
import { LINEAR_NAMES, type LinearName } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import { peftTargetModules } from '../model/adapter-tensors.ts';

/** The shape of an adapter, from its adapter_config.json. */
export interface PeftShape {
  readonly rank: number;
  readonly alpha: number;
  /** In the order of a block. */
  readonly targets: readonly LinearName[];
}

// Above 256 an adapter is no smaller than what it adapts, for most models.
const MAX_RANK = 256;

/** Keys that say nothing of what the adapter computes: whatever they hold is fine. */
const INFORMATIVE: ReadonlySet<string> = new Set([
  'auto_mapping',
  'base_model_name_or_path',
  'revision',
  'inference_mode',
  'peft_version',
  'lora_dropout', // training only
  'eva_config', // initial values only
  'megatron_core', // a module name, used with megatron_config alone
  'layers_pattern', // used with layers_to_transform alone
  'qalora_group_size', // used with use_qalora alone
  'runtime_config',
]);

/** Kinds of initial values that leave the base weights as they are. */
const PLAIN_INITIALISATIONS: readonly unknown[] = [true, false, null, undefined, 'gaussian', 'orthogonal', 'eva'];

/**
 * Reads an adapter_config.json of PEFT. Every option that would change what the adapter computes, known or not, is refused by name.
 *
 * @throws {TrainerError} `trainer.adapter_invalid`
 */
export function readPeftConfig(text: string): PeftShape {
  let config: unknown;
  try {
    config = JSON.parse(text);
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
    target_modules,
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
  return { rank: rankOf(r), alpha: alphaOf(lora_alpha), targets: targetsOf(target_modules) };
}

function rankOf(value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_RANK) return value;
  throw invalid(`r must be a whole number from 1 to ${MAX_RANK}, got ${shown(value)}`);
}

function alphaOf(value: unknown): number {
  if (typeof value === 'number' && value >= LEAST_LORA_ALPHA && value <= 1e6) return value;
  throw invalid(`lora_alpha must be a number from ${LEAST_LORA_ALPHA} to 1000000, got ${shown(value)}`);
}

function targetsOf(value: unknown): LinearName[] {
  const known = peftTargetModules(LINEAR_NAMES);
  if (value === 'all-linear') return [...LINEAR_NAMES];
  if (!Array.isArray(value) || value.length === 0) {
    throw invalid(`target_modules must be "all-linear" or a list of ${known.join(', ')}, got ${shown(value)}`);
  }
  const unknown: unknown = value.find((name) => !known.includes(name as string));
  if (unknown !== undefined) {
    throw invalid(`target_modules may name ${known.join(', ')}, got ${shown(unknown)}`);
  }
  return LINEAR_NAMES.filter((_, index) => value.includes(known[index]));
}

function isNeutral(value: unknown): boolean {
  if (value === null || value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value as object).length === 0;
}

function invalid(message: string, cause?: unknown): TrainerError {
  return new TrainerError('trainer.adapter_invalid', message, { cause });
}
