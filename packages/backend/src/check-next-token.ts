import type { EngineError } from './errors.ts';
import { noTokenLeft, type TokenMasks } from './no-token-left.ts';
import type { ChoiceText, RequestText } from './request-text.ts';
import type { SampleRequest } from './sample-request.ts';
import type { EndTokens } from './vocabulary/end-tokens.ts';
import { allows, createTokenMask } from './vocabulary/token-mask.ts';

type Masking = Pick<SampleRequest, 'allowedTokenIds' | 'stopTokenIds' | 'minTokens' | 'beamSearch'>;

/** Other facts that decide which token may come next. */
export interface NextTokenFacts {
  readonly vocabSize: number;
  readonly ends: EndTokens;
  /** Banned token sequences. */
  readonly banned: readonly (readonly number[])[];
  readonly text: RequestText;
}

/**
 * Refuses masks that together leave no first token. Free if only a constraint masks; the constraint's first
 * mask is made if another mask could empty it. A later dead end is a failure of the reply.
 *
 * @throws {EngineError} engine.invalid_request naming the fields; engine.internal,
 *   engine.constraint_exhausted of the constraint
 */
export function checkFirstToken(request: Masking, facts: NextTokenFacts): void {
  const failure = onChoice(facts.text, (choice) => failureAfter([], choice, { request, facts, completesAnyway: true }));
  if (failure !== null) throw failure;
}

/**
 * Examines a reply whose back end failed without a reason. Null if the masks left a token after it, and
 * before its last token, which may be one that no mask allowed.
 */
export function whyNoToken(replyIds: readonly number[], request: Masking, facts: NextTokenFacts): EngineError | null {
  const masking = { request, facts, completesAnyway: false };
  return onChoice(facts.text, (choice) => {
    const { constraint } = choice;
    for (const [at, id] of replyIds.entries()) {
      if (at === replyIds.length - 1) {
        const failure = failureAfter(replyIds.slice(0, at), choice, masking);
        if (failure !== null) return failure;
      }
      choice.push(id, null);
      constraint?.accept(id);
    }
    return failureAfter(replyIds, choice, masking);
  });
}

function onChoice<Result>(text: RequestText, look: (choice: ChoiceText) => Result): Result {
  const choice = text.openChoice();
  try {
    return look(choice);
  } finally {
    choice.close();
  }
}

interface MaskedModel {
  readonly request: Masking;
  readonly facts: NextTokenFacts;
  /**
   * True if a complete constraint ends the reply even if its end is masked; in other back ends only `minTokens`
   * leave it.
   */
  readonly completesAnyway: boolean;
}

function failureAfter(replyIds: readonly number[], choice: ChoiceText, masking: MaskedModel): EngineError | null {
  const masks = masksThatLeaveNone(replyIds, choice, masking);
  return masks && noTokenLeft(masks, replyIds.length);
}

function masksThatLeaveNone(
  replyIds: readonly number[],
  choice: ChoiceText,
  { request, facts, completesAnyway }: MaskedModel,
): TokenMasks | null {
  const { allowedTokenIds, stopTokenIds, minTokens, beamSearch } = request;
  const { vocabSize, ends, banned } = facts;
  if (beamSearch !== null) return null;
  const barred = new Set(banned.filter((sequence) => isDue(sequence, replyIds)).map((sequence) => sequence.at(-1)!));
  const ending = minTokens > replyIds.length ? new Set([...stopTokenIds, ...ends.endTokenIds, ends.eosTokenId]) : null;
  if (allowedTokenIds === null && barred.size === 0 && ending === null) return null;
  const { forcedId } = choice;
  if (forcedId !== null && ending?.has(forcedId) !== true) return null; // precedes masks
  // With only end tokens masked, the constraint keeps another token or is complete, and then it may end.
  const isNarrowed = allowedTokenIds !== null || barred.size > 0 || stopTokenIds.length > 0;
  const mask = createTokenMask(vocabSize);
  const masking = isNarrowed ? (choice.constraint?.fillMask(mask) ?? 'any') : 'any';
  if (masking === 'complete' && completesAnyway) return null;
  const masked = masking === 'complete' ? null : ending;
  const isPossible = (id: number): boolean =>
    !barred.has(id) && masked?.has(id) !== true && (masking === 'any' || allows(mask, id));
  if (allowedTokenIds?.some(isPossible) ?? someBelow(vocabSize, isPossible)) return null;
  return {
    allowed: allowedTokenIds !== null,
    banned: barred.size > 0,
    ends: masked !== null,
    constraint: masking !== 'any',
  };
}

/** True if the sequence's last token would come next. */
function isDue(sequence: readonly number[], replyIds: readonly number[]): boolean {
  const start = replyIds.length - (sequence.length - 1);
  return start >= 0 && sequence.every((id, at) => at === sequence.length - 1 || replyIds[start + at] === id);
}

function someBelow(end: number, isPossible: (id: number) => boolean): boolean {
  for (let id = 0; id < end; id++) if (isPossible(id)) return true;
  return false;
}
