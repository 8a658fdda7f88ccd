/**
 * Choices that a job holds several times: agents that snapshot their conversations send every earlier turn
 * again.
 */
import type { ChoiceItem, TrainingSequence } from '@trainyard/tokenizer';
import { TokenTrie } from '../packing/token-trie.ts';

interface SampledTrajectory {
  /** Copies of one choice in several trajectories are trained with the mean. */
  readonly advantage: number;
  /** False: only counted. */
  readonly isTrained: boolean;
  readonly sequences: readonly TrainingSequence[];
}

export interface CopyReport {
  readonly numChoices: number;
  readonly numTokens: number;
}

/** One choice of a sequence. */
export interface PlacedChoice {
  /** Position in the sequence. */
  readonly start: number;
  readonly choice: ChoiceItem;
  /** Another occurrence of the same sample is trained. */
  isCopy: boolean;
  /** Mean over the trajectories that hold the sample. */
  advantage: number;
}

interface Occurrence {
  readonly trajectory: number;
  /** Choices of the sequence. */
  readonly numChoices: number;
  readonly placed: PlacedChoice;
}

/**
 * Finds occurrences of the same sample, of which one is trained. Two choices are one sample if they name one
 * record and have the same tokens, anywhere in the job; or, within one trajectory, if the same tokens with the
 * same log-probabilities follow the same tokens and neither record, answer id nor index distinguishes them.
 * Equal answers of two trajectories are two samples.
 *
 * @param trajectories all of the job
 * @param logprobsOf as they were sent
 * @returns the choices of each sequence of each trajectory
 */
export function findCopies(
  trajectories: readonly SampledTrajectory[],
  logprobsOf: (choice: ChoiceItem) => Float32Array,
): { readonly choices: readonly (readonly (readonly PlacedChoice[])[])[]; readonly report: CopyReport } {
  const choices = trajectories.map(({ advantage, sequences }) =>
    sequences.map((sequence) => sequence.choices.map((placed) => ({ ...placed, isCopy: false, advantage }))),
  );
  const samples = choices.flatMap((ofTrajectory, trajectory) =>
    samplesOf(trajectories[trajectory]!.sequences, ofTrajectory, trajectory, logprobsOf),
  );
  const report = { numChoices: 0, numTokens: 0 };
  for (const sample of joinByRecord(samples)) {
    const [kept, ...copies] = inKeepingOrder(sample, trajectories);
    const holders = [...new Set(sample.map(({ trajectory }) => trajectory))];
    const total = holders.reduce((sum, holder) => sum + trajectories[holder]!.advantage, 0);
    // An advantage held by only one trajectory stays unchanged, bit for bit.
    if (holders.length > 1) kept!.placed.advantage = total / holders.length;
    for (const { placed } of copies) {
      placed.isCopy = true;
      report.numChoices++;
      report.numTokens += placed.choice.tokenIds.length;
    }
  }
  return { choices, report };
}

/** Groups by sample. */
function samplesOf(
  sequences: readonly TrainingSequence[],
  choices: readonly (readonly PlacedChoice[])[],
  trajectory: number,
  logprobsOf: (choice: ChoiceItem) => Float32Array,
): Occurrence[][] {
  const trie = new TokenTrie();
  const byPlace = new Map<string, Occurrence[][]>();
  const samples: Occurrence[][] = [];
  for (const [index, { tokenIds }] of sequences.entries()) {
    const ofSequence = choices[index]!;
    const nodes = sequences.length > 1 ? trie.add(tokenIds) : null;
    for (const placed of ofSequence) {
      const occurrence = { trajectory, numChoices: ofSequence.length, placed };
      const { length } = placed.choice.tokenIds;
      // A node is one prefix of tokens, so the same node and length mean the same start.
      const place = `${nodes === null ? placed.start : nodes[placed.start + length - 1]} ${length}`;
      const found = byPlace.get(place) ?? [];
      byPlace.set(place, found);
      const same = found.find(([other]) => isSameSample(placed.choice, other!.placed.choice, logprobsOf));
      if (same !== undefined) same.push(occurrence);
      else {
        const sample = [occurrence];
        found.push(sample);
        samples.push(sample);
      }
    }
  }
  return samples;
}

/** True for one sample; both have the same tokens after the same tokens. */
function isSameSample(one: ChoiceItem, other: ChoiceItem, logprobsOf: (choice: ChoiceItem) => Float32Array): boolean {
  if (one.recordId !== undefined && other.recordId !== undefined) return one.recordId === other.recordId;
  if (one.answerPlace !== undefined && other.answerPlace !== undefined && one.answerPlace !== other.answerPlace)
    return false;
  const logprobs = logprobsOf(other);
  return logprobsOf(one).every((logprob, i) => Object.is(logprob, logprobs[i]));
}

/** Joins samples with the same record and tokens. */
function joinByRecord(samples: readonly Occurrence[][]): Occurrence[][] {
  const byRecord = new Map<string, Occurrence[]>();
  const joined: Occurrence[][] = [];
  for (const sample of samples) {
    const named = sample.find(({ placed }) => placed.choice.recordId !== undefined)?.placed.choice;
    const key = named === undefined ? null : `${named.recordId} ${named.tokenIds.join()}`;
    const same = key === null ? undefined : byRecord.get(key);
    if (same !== undefined) same.push(...sample);
    else joined.push(sample);
    if (key !== null && same === undefined) byRecord.set(key, sample);
  }
  return joined;
}

/**
 * Trained occurrences first, then those with the most choices in their sequence, so that ratios of sequences
 * stay those of whole conversations.
 */
function inKeepingOrder(sample: readonly Occurrence[], trajectories: readonly SampledTrajectory[]): Occurrence[] {
  const isTrained = ({ trajectory }: Occurrence) => Number(trajectories[trajectory]!.isTrained);
  return sample.toSorted(
    (a, b) => isTrained(b) - isTrained(a) || a.trajectory - b.trajectory || b.numChoices - a.numChoices,
  );
}
