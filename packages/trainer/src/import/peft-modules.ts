import { shown } from '@trainyard/native';
import { TrainerError } from '../contract/errors.ts';
import { firstMatches } from './python-patterns.ts';

export interface ModuleOptions {
  readonly target_modules?: unknown;
  readonly exclude_modules?: unknown;
  readonly layers_to_transform?: unknown;
  readonly layers_pattern?: unknown;
}

/**
 * @param names full names of linear modules, such as `model.layers.0.self_attn.q_proj`
 * @returns true for each module that PEFT adapts
 * @throws {TrainerError} `trainer.adapter_invalid`
 * @see peft.tuners.tuners_utils.check_target_module_exists
 */
export function adaptedModules(options: ModuleOptions, names: readonly string[]): boolean[] {
  const { target_modules: targets, exclude_modules: excluded } = options;
  if (!isSelection(targets) || targets.length === 0) {
    throw invalid(
      `target_modules must be "all-linear", a regular expression, or a list of names or paths, got ${shown(targets)}`,
    );
  }
  if (!isNothing(excluded) && !isSelection(excluded))
    throw invalid(`exclude_modules must be a regular expression or a list of names or paths, got ${shown(excluded)}`);
  const isTarget =
    typeof targets === 'string' && targets.toLowerCase() === 'all-linear'
      ? names.map(() => true)
      : selected('target_modules', targets, names);
  const isExcluded = isNothing(excluded) ? names.map(() => false) : selected('exclude_modules', excluded, names);
  const isInLayers = typeof targets === 'string' ? names.map(() => true) : inLayers(options, names);
  return names.map((_, index) => isTarget[index]! && isInLayers[index]! && !isExcluded[index]!);
}

type Selection = string | readonly string[];

function isSelection(value: unknown): value is Selection {
  return typeof value === 'string' || (Array.isArray(value) && value.every((name) => typeof name === 'string'));
}

function isNothing(value: unknown): value is null | undefined | readonly [] | '' {
  return value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

/** A string is an expression for the whole name; list items are names or ends of names. */
function selected(option: string, selection: Selection, names: readonly string[]): boolean[] {
  if (typeof selection === 'string') return firstMatches(option, [selection], names).map((index) => index >= 0);
  const whole = new Set(selection);
  return names.map((name) => endsOf(name).some((end) => whole.has(end)));
}

function endsOf(name: string): string[] {
  const parts = name.split('.');
  return parts.map((_, index) => parts.slice(index).join('.'));
}

function inLayers(
  { layers_to_transform: layers, layers_pattern: pattern }: ModuleOptions,
  names: readonly string[],
): boolean[] {
  if (isNothing(layers)) return names.map(() => true);
  const indices: unknown[] = Array.isArray(layers) ? layers : [layers];
  if (!indices.every((index) => Number.isInteger(index)))
    throw invalid(`layers_to_transform must be a whole number or a list of them, got ${shown(layers)}`);
  if (!isNothing(pattern) && !isSelection(pattern))
    throw invalid(`layers_pattern must be a name or a list of names, got ${shown(pattern)}`);
  const patterns = isNothing(pattern) ? ['[^.]*'] : typeof pattern === 'string' ? [pattern] : pattern;
  const found = firstMatches(
    'layers_pattern',
    patterns.map((one) => `(?:.*\\.)?(?:${one})\\.\\d+\\..*`),
    names,
  );
  return names.map((name, index) => found[index]! >= 0 && indices.includes(Number(/\.(\d+)\./.exec(name)?.[1])));
}

function invalid(message: string): TrainerError {
  return new TrainerError('trainer.adapter_invalid', message);
}
