import { NAME_PATTERN } from '@trainyard/protocol';

import { RequestError } from '../../seams/faults/request-error.ts';

const NAME = new RegExp(NAME_PATTERN, 'u');
const MAX_CHARACTERS = 128;

/**
 * @throws {RequestError} `request.invalid` for a text that cannot be part of a name.
 * @param loc its place in the request
 */
export function requireName(loc: readonly (string | number)[], value: string): void {
  if (value.length <= MAX_CHARACTERS && NAME.test(value)) return;
  const msg = `Input should be 1 to ${MAX_CHARACTERS} characters without /, :, @ and control characters, and not . or ..`;
  throw RequestError.invalid([{ loc: [...loc], msg, type: 'value_error' }]);
}
