import { strict as assert } from 'node:assert';
import { drawAt, rowReplay, type PlacedReplay, type TokenDraw } from './choice-replay.ts';
import type { PackedRow } from '../model/policy-model.ts';
import { seededRandom, shuffled } from './random.ts';
import { TokenTrie } from './token-trie.ts';

/** All its trained tokens have the same advantage and weight. */
export interface CreditedSequence {
  /** Histories are shuffled within a group; groups keep their order. */
  readonly groupIndex: number;
  readonly trajectoryIndex: number;
  readonly sequenceIndex: number;
  /** [T] */
  readonly tokenIds: Int32Array;
  /** [T] 1 for trained tokens; never at 0, which nothing predicts. */
  readonly lossMask: Uint8Array;
  /** [T] log-probability under the sampling policy; NaN if unknown. */
  readonly oldLogprobs: Float32Array;
  readonly advantage: number;
  readonly weight: number;
  /** Choices not drawn plainly from the model. Absent: none. */
  readonly replays?: readonly PlacedReplay[];
}

/** Computed in one pass: N trained tokens, history after history. */
export interface TrainingRow {
  readonly row: PackedRow;
  /** [N] */
  readonly sampledLogprobs: Float32Array;
  /**
   * Tokens without a reported log-probability, computed before the first step, by the digest of the adapter that
   * drew them (null = base). Absent: none.
   */
  readonly unreported?: ReadonlyMap<string | null, readonly number[]>;
  readonly advantages: Float64Array;
  readonly weights: Float64Array;
  /** [N] index of the token's history in this row. */
  readonly histories: Int32Array;
  /** Ordered like their tokens. */
  readonly members: readonly CreditedSequence[];
  readonly numHistories: number;
  readonly numTrajectories: number;
  /** Shared tokens counted each time: the work of a trainer without sharing. */
  readonly numSequenceTokens: number;
}

/** A job of short answers is one step instead of many. */
const ROW_GRANULARITY = 2048;

/**
 * `packedSequenceLength` if given, else the longest history rounded up to 2,048, at most `maxSequenceLength`.
 * Longer histories are dropped completely.
 */
export function rowLength(
  longest: number,
  config: { packedSequenceLength: number | null; maxSequenceLength: number },
): number {
  return (
    config.packedSequenceLength ??
    Math.min(ROW_GRANULARITY * Math.max(1, Math.ceil(longest / ROW_GRANULARITY)), config.maxSequenceLength)
  );
}

/**
 * Packs greedily: a history goes into the current row if its unshared part still fits, else starts a new row.
 * Its last token is only predicted, so it takes no place.
 *
 * @param sequences in order of their groups, none longer than `maxTokens`
 * @param maxTokens tokens per row, shared ones counted once
 * @param seed of the shuffle of histories within groups, and of the rows at the end
 */
export function packRows(sequences: readonly CreditedSequence[], maxTokens: number, seed: number): TrainingRow[] {
  const random = seededRandom(seed);
  const rows: TrainingRow[] = [];
  let trie = new TokenTrie();
  let members: CreditedSequence[] = [];
  for (const group of byGroup(sequences)) {
    for (const sequence of shuffled(group, random)) {
      assert(sequence.tokenIds.length <= maxTokens && sequence.lossMask[0] === 0);
      const inputs = sequence.tokenIds.subarray(0, -1);
      if (members.length > 0 && trie.size + trie.numNewNodes(inputs) > maxTokens) {
        rows.push(trainingRow(trie, members));
        trie = new TokenTrie();
        members = [];
      }
      trie.add(inputs);
      members.push(sequence);
    }
  }
  if (members.length > 0) rows.push(trainingRow(trie, members));
  return shuffled(rows, random);
}

function byGroup(sequences: readonly CreditedSequence[]): CreditedSequence[][] {
  return [...Map.groupBy(sequences, ({ groupIndex }) => groupIndex).values()];
}

function trainingRow(trie: TokenTrie, members: readonly CreditedSequence[]): TrainingRow {
  const { tokenIds, positions, parents, rowIndex } = trie.flatten();
  const numTrained = members.reduce((total, { lossMask }) => total + lossMask.reduce((sum, flag) => sum + flag, 0), 0);
  const sources = new Int32Array(numTrained);
  const targets = new Int32Array(numTrained);
  const sampledLogprobs = new Float32Array(numTrained);
  const advantages = new Float64Array(numTrained);
  const weights = new Float64Array(numTrained);
  const histories = new Int32Array(numTrained);
  const draws: (TokenDraw | null)[] = [];
  let at = 0;
  members.forEach((sequence, history) => {
    const nodes = trie.add(sequence.tokenIds.subarray(0, -1)); // adds nothing, only looks them up
    for (let i = 1; i < sequence.tokenIds.length; i++) {
      if (sequence.lossMask[i] === 0) continue;
      sources[at] = rowIndex[nodes[i - 1]!]!;
      targets[at] = sequence.tokenIds[i]!;
      sampledLogprobs[at] = sequence.oldLogprobs[i]!;
      advantages[at] = sequence.advantage;
      weights[at] = sequence.weight;
      histories[at] = history;
      draws.push(drawAt(sequence.replays, i));
      at++;
    }
  });
  const replay = rowReplay(draws);
  const unreported = unreportedTokens(draws, sampledLogprobs);
  return {
    row: { tokenIds, positions, parents, sources, targets, ...(replay === null ? {} : { replay }) },
    sampledLogprobs,
    ...(unreported.size === 0 ? {} : { unreported }),
    advantages,
    weights,
    histories,
    members,
    numHistories: members.length,
    numTrajectories: new Set(members.map((member) => `${member.groupIndex} ${member.trajectoryIndex}`)).size,
    numSequenceTokens: members.reduce((total, { tokenIds: ids }) => total + ids.length, 0),
  };
}

/** Keys: digests of the adapters that drew them. */
function unreportedTokens(
  draws: readonly (TokenDraw | null)[],
  sampledLogprobs: Float32Array,
): ReadonlyMap<string | null, readonly number[]> {
  const unreported = new Map<string | null, number[]>();
  for (const [index, draw] of draws.entries()) {
    const policyDigest = draw?.replay.policyDigest;
    if (policyDigest === undefined || !Number.isNaN(sampledLogprobs[index])) continue;
    const tokens = unreported.get(policyDigest);
    if (tokens === undefined) unreported.set(policyDigest, [index]);
    else tokens.push(index);
  }
  return unreported;
}
