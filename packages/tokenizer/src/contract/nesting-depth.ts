import { membersOf } from './python-values.ts';
import { TokenizerError } from './tokenizer-error.ts';

// JSON schemas of tools have about 20 levels; whoever walks a value pays stack for each.
const MAX_DEPTH = 128;

/** @throws {TokenizerError} `tokenizer.unsupported_content` for arrays and objects nested too deep */
export function checkNestingDepth(value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) {
      const message = `messages, tools and template variables may be nested ${MAX_DEPTH} levels deep`;
      throw new TokenizerError('tokenizer.unsupported_content', message);
    }
    level = level.filter((item): item is object => typeof item === 'object' && item !== null).flatMap(membersOf);
  }
}
