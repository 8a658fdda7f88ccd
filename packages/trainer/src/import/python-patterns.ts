import { runInNewContext } from 'node:vm';
import { shown } from '@trainyard/native';
import { TrainerError } from '../contract/errors.ts';

/** An untrusted regular expression may run forever. */
const MAX_MILLISECONDS = 2_000;

/**
 * Matches names like `re.fullmatch`. Python-only syntax is translated; other differences do not matter for
 * module names.
 *
 * @param option for errors
 * @returns for each name the index of the first matching expression, −1 for none
 * @throws {TrainerError} `trainer.adapter_invalid` for expressions that cannot be parsed or take too long
 */
export function firstMatches(option: string, patterns: readonly string[], names: readonly string[]): number[] {
  const expressions = patterns.map((pattern) => translated(option, pattern));
  try {
    const search = 'names.map((name) => expressions.findIndex((expression) => expression.test(name)))';
    const found: unknown = runInNewContext(search, { names, expressions }, { timeout: MAX_MILLISECONDS });
    return Array.from(found as number[]);
  } catch (cause) {
    const message = `the expressions of ${option} take longer than ${MAX_MILLISECONDS / 1000} s to match`;
    throw new TrainerError('trainer.adapter_invalid', message, { cause });
  }
}

function translated(option: string, pattern: string): RegExp {
  const [flags = ''] = /(?<=^\(\?)[is]+(?=\))/.exec(pattern) ?? [];
  const source = pattern.replace(/^\(\?[is]+\)/, '').replace(/\\.|\(\?P<|\(\?P=(\w+)\)/gs, (part, name?: string) => {
    if (name !== undefined) return `\\k<${name}>`;
    if (part === '(?P<') return '(?<';
    return part === '\\A' || part === '\\Z' ? '(?:)' : part;
  });
  try {
    return new RegExp(`^(?:${source})$`, flags);
  } catch (cause) {
    const message = `${option} has an invalid expression, ${shown(pattern)}: ${(cause as Error).message}`;
    throw new TrainerError('trainer.adapter_invalid', message, { cause });
  }
}
