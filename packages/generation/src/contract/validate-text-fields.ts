import { check, checkCount, isIntegerIn, REQUEST_LIMITS } from '@trainyard/backend';
import type { GenerateRequest } from './generate-request.ts';

/**
 * Checks the fields that need text, and no prompt, in time proportional to the request.
 * @throws {EngineError} engine.invalid_request naming the field, the limit and the value
 */
export function validateTextFields(request: GenerateRequest): void {
  const { thinkingTokenBudget: budget = null, truncatePromptTokens: kept = null, badWords, beamSearch } = request;
  checkTexts('stop', request.stop, REQUEST_LIMITS.stopCharacters);
  check(budget === null || isIntegerIn(budget, 0), 'thinkingTokenBudget', 'null or an integer of at least 0', budget);
  check(budget === null || !beamSearch, 'thinkingTokenBudget', 'null for a beam search', budget);
  if (badWords) {
    checkCount('badWords', badWords.length, REQUEST_LIMITS.badWords, 'words');
    checkTexts('badWords', badWords, REQUEST_LIMITS.badWordCharacters);
  }
  check(request.constraintStartsAfter !== '', 'constraintStartsAfter', 'null or a text', '""');
  check(kept === null || isIntegerIn(kept, -1), 'truncatePromptTokens', 'null or an integer of at least -1', kept);
}

function checkTexts(param: string, texts: readonly string[], maxCharacters: number): void {
  let numCharacters = 0;
  for (const text of texts) {
    check(text.length > 0, param, 'without empty strings', '""');
    numCharacters += text.length;
  }
  checkCount(param, numCharacters, maxCharacters, 'characters in all');
}
