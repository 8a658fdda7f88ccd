import { type FieldText, naming } from '@trainyard/protocol/fields';
import { refusal } from './check-field.ts';
import type { EndTokens } from './vocabulary/end-tokens.ts';
import type { RequestText } from './request-text.ts';
import type { SampleRequest } from './sample-request.ts';
import { allows, createTokenMask } from './vocabulary/token-mask.ts';

/** The rest of what decides which token a reply may begin with. */
export interface FirstTokenFacts {
  readonly vocabSize: number;
  readonly ends: EndTokens;
  /** Token sequences that must not come. */
  readonly banned: readonly (readonly number[])[];
  readonly text: RequestText;
}

/**
 * Refuses masks that together take every token away before the first is sampled. Costs nothing where nothing but a constraint masks; a constraint's first mask is
 * made where another could empty it. What dead-ends later is a failure of the reply.
 *
 * @throws {EngineError} engine.invalid_request naming the fields; engine.internal, engine.constraint_exhausted of the constraint
 */
export function checkFirstToken(
  { allowedTokenIds, stopTokenIds, minTokens, beamSearch }: SampleRequest,
  { vocabSize, ends, banned, text }: FirstTokenFacts,
): void {
  if (beamSearch !== null) return;
  const alone = new Set(banned.filter(({ length }) => length === 1).map(([id]) => id!));
  const ending = minTokens > 0 ? new Set([...stopTokenIds, ...ends.endTokenIds, ends.eosTokenId]) : null;
  if (allowedTokenIds === null && alone.size === 0 && ending === null) return;
  const choice = text.openChoice();
  try {
    const { forcedId } = choice;
    if (forcedId !== null && ending?.has(forcedId) !== true) return; // it goes before masks
    // Behind end tokens alone it keeps some other, or is complete, and then it may end.
    const isNarrowed = allowedTokenIds !== null || alone.size > 0 || stopTokenIds.length > 0;
    const mask = createTokenMask(vocabSize);
    const masking = isNarrowed ? (choice.constraint?.fillMask(mask) ?? 'any') : 'any';
    const masked = masking === 'complete' ? null : ending;
    const isPossible = (id: number): boolean =>
      !alone.has(id) && masked?.has(id) !== true && (masking === 'any' || allows(mask, id));
    if (allowedTokenIds?.some(isPossible) ?? someBelow(vocabSize, isPossible)) return;
    const fields = [
      allowedTokenIds !== null && 'allowedTokenIds',
      alone.size > 0 && 'badWords',
      masked !== null && 'minTokens',
      masking !== 'any' && 'constraint',
    ].filter((name) => typeof name === 'string');
    throw refusal(fields[0]!, noneLeft(fields));
  } finally {
    choice.close();
  }
}

function someBelow(end: number, isPossible: (id: number) => boolean): boolean {
  for (let id = 0; id < end; id++) if (isPossible(id)) return true;
  return false;
}

function noneLeft([first, ...others]: readonly string[]): FieldText {
  const beside = others.flatMap((field, at) => [at === 0 ? ' beside ' : ' and ', { field }]);
  return [...naming`${{ field: first! }} must leave a token that a reply can begin with, got none`, ...beside];
}
