import { NAME_PATTERN } from '@trainyard/protocol';

import { RequestError } from '../../seams/faults/request-error.ts';

const NAME = new RegExp(NAME_PATTERN, 'u');
const MAX_CHARACTERS = 128;

/** Characters that a key's name cannot contain; `@`, `+` and blanks are fine, as no model name is parsed from it. */
const NOT_IN_KEY_NAMES = /[/:\p{Cc}\p{Cs}]/u;

/** @throws {RequestError} `request.invalid` for a text that cannot name a key; it has 1 to 128 characters */
export function requireKeyName(loc: readonly (string | number)[], value: string): void {
  const [found] = NOT_IN_KEY_NAMES.exec(value) ?? [];
  if (found === undefined && value.trim() !== '') return;
  const msg =
    found === undefined
      ? 'A name cannot be blank'
      : `A name cannot contain /, : or control characters, got ${JSON.stringify(value)}`;
  throw RequestError.invalid([{ loc: [...loc], msg, type: 'value_error' }]);
}

/**
 * @throws {RequestError} `request.invalid` for a text that cannot be part of a name.
 * @param loc its place in the request
 */
export function requireName(loc: readonly (string | number)[], value: string): void {
  if (value.length <= MAX_CHARACTERS && NAME.test(value)) return;
  const msg = `Input should be 1 to ${MAX_CHARACTERS} characters without /, :, @ and control characters, and not . or ..`;
  throw RequestError.invalid([{ loc: [...loc], msg, type: 'value_error' }]);
}
