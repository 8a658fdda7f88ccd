import { distanceOfScores, type FixedScores } from '@trainyard/backend';

import { UnusableServer } from '../server/server-facts.ts';

/** Mean distance, nats, of a different model. Rounding of weights to 4 bits gives up to about 0.2. */
const OTHER_MODEL = 0.5;
/** Mean distance above which samples and the trainer's model visibly differ: other number formats. */
const OTHER_NUMBERS = 0.05;

const WHAT_TO_DO = 'serve the same model on both';

/** Checks the vocabulary before missing tokens are scored. @throws {UnusableServer} */
export function requireVocabulary({ tokenIds }: FixedScores, vocabSize: number, server: string): void {
  const largest = Math.max(...tokenIds);
  if (largest < vocabSize) return;
  throw new UnusableServer(
    `${server} serves a different model than the file of --model: it has ${vocabSize} tokens, the file has token ${largest}; ${WHAT_TO_DO}`,
  );
}

/**
 * @returns a line for the log if it is the same model in other number formats, or null @throws
 *   {UnusableServer}
 */
export function compareScores(
  reference: FixedScores,
  scores: readonly (number | null)[],
  server: string,
): string | null {
  const { mean, words } = distanceOfScores(reference, scores);
  if (!(mean <= OTHER_MODEL))
    throw new UnusableServer(
      `${server} serves a different model than the file of --model: ${words} (at most ${OTHER_MODEL}); ${WHAT_TO_DO}`,
    );
  if (mean <= OTHER_NUMBERS) return null;
  return `${server}: ${words}: its weights have another precision than the model file, and training uses the file`;
}
