import { Environment } from '@huggingface/jinja';
import { holdsPythonValues } from '../contract/python-values.ts';
import { runtimeValue } from './runtime-values.ts';
import { strftime } from './strftime.ts';

// jinja2's sandbox has the same limit; without one, range(10**9) takes the whole process down.
const MAX_RANGE = 100_000;

/** Thrown by a template's own `raise_exception(reason)`. */
export class TemplateRefusal extends Error {
  override readonly name = 'TemplateRefusal';
}

/**
 * The variables a template starts with: Python's constants, `raise_exception`, `strftime_now`, `range`, `namespace`, and the given ones.
 *
 * Given names that are taken by these are left out: a request cannot replace what a template relies on.
 * Filters (`tojson`, `trim`, …) and tests are the library's own.
 */
export function templateEnvironment(variables: Readonly<Record<string, unknown>>, clock: () => Date): Environment {
  const environment = new Environment();
  const builtIn: Record<string, unknown> = {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    raise_exception: (reason: unknown) => {
      throw new TemplateRefusal(String(reason));
    },
    strftime_now: (format: unknown) => strftime(clock(), String(format)),
    range: cappedRange,
  };
  for (const [name, value] of [...Object.entries(builtIn), ...Object.entries(variables)]) {
    if (environment.variables.has(name)) continue;
    if (holdsPythonValues(value)) environment.variables.set(name, runtimeValue(value) as never);
    else environment.set(name, value);
  }
  return environment;
}

function cappedRange(...bounds: unknown[]): number[] {
  if (bounds.length < 1 || bounds.length > 3 || !bounds.every(Number.isInteger)) {
    throw new TypeError(`range() takes 1 to 3 integers, got ${JSON.stringify(bounds)}`);
  }
  const [first = 0, second, step = 1] = bounds as number[];
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  if (step === 0) throw new RangeError('range() step must not be zero');
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > MAX_RANGE) throw new RangeError(`range() must have at most ${MAX_RANGE} items, got ${length}`);
  return Array.from({ length }, (_, index) => start + index * step);
}
