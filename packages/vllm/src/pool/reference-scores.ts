import { UnusableServer } from '../server/server-facts.ts';

/** Scores that the base model gives to fixed tokens, computed from the files here. */
export interface ReferenceScores {
  readonly tokenIds: readonly number[];
  /** One a token; null for the first. */
  readonly logprobs: readonly (number | null)[];
}

/** Mean distance, nats, above which it is another model. Rounding of weights to 4 bits gives up to about 0.2. */
const OTHER_MODEL = 0.5;
/** Above this samples and the trainer's model visibly differ: other number formats. */
const OTHER_NUMBERS = 0.05;

/** @returns a line for the log where it is the same model in other numbers, or null @throws {UnusableServer} */
export function compareScores(
  reference: ReferenceScores,
  scores: readonly (number | null)[],
  server: string,
): string | null {
  const differences = reference.logprobs.flatMap((logprob, at) => {
    const other = scores[at] ?? null;
    return logprob === null || other === null ? [] : [Math.abs(logprob - other)];
  });
  const mean = differences.reduce((sum, difference) => sum + difference, 0) / Math.max(differences.length, 1);
  const said = `log-probabilities of ${differences.length} fixed tokens differ by ${mean.toFixed(3)} on average`;
  if (!(mean <= OTHER_MODEL))
    throw new UnusableServer(
      `${server} serves another model than the file of the setting model: ${said} (at most ${OTHER_MODEL}); serve the model of that file there, or set the file of the model that is served there`,
    );
  if (mean <= OTHER_NUMBERS) return null;
  return `${server}: ${said}: it computes with other numbers than the model file has, and training goes by the file`;
}
