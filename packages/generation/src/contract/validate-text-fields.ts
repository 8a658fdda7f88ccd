import { check, checkCount } from '@trainyard/backend';
import { findUnfitParam, REQUEST_LIMITS } from '@trainyard/protocol/fields';
import type { GenerateRequest } from './generate-request.ts';

/**
 * Checks the fields that need text but no prompt, in time proportional to the request.
 * @throws {EngineError} engine.invalid_request naming the field, the limit and the value
 */
export function validateTextFields(request: GenerateRequest): void {
  const unfit = findUnfitParam(request, 'text');
  if (unfit !== null) check(false, unfit.name, unfit.rule, unfit.value);
  checkTexts('stop', request.stop, REQUEST_LIMITS.stopCharacters);
  checkTexts('badWords', request.badWords, REQUEST_LIMITS.badWordCharacters);
  check(request.constraintStartsAfter !== '', 'constraintStartsAfter', 'null or a text', '""');
}

function checkTexts(param: string, texts: readonly string[], maxCharacters: number): void {
  let numCharacters = 0;
  for (const text of texts) {
    check(text.length > 0, param, 'without empty strings', '""');
    numCharacters += text.length;
  }
  checkCount(param, numCharacters, maxCharacters, 'characters in all');
}
