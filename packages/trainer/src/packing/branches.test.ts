/** Turns whose prompts differ from the tokens sampled in earlier turns, from trajectories to rows. */
import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import { type HistoryItem, isKept, KeptTokensWriter } from '@trainyard/tokenizer';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { resolveTrainingConfig } from '../config/training-config.ts';
import type { PackedRow } from '../model/policy-model.ts';
import { trainingSequences } from '../rollouts/training-sequences.ts';
import { trainingSteps } from '../rollouts/training-steps.ts';
import { byteTemplate, END_TOKEN, group, message } from '../testing/chat-groups.ts';

/** A sampled token, found by its unique log-probability. */
interface Expected {
  readonly context: readonly number[];
  readonly id: number;
  /** 1 = drawn plainly. */
  readonly temperature: number;
  readonly reward: number;
}

const turn = fc.record({
  question: fc.string({ maxLength: 3, unit: fc.constantFrom('a', 'b') }),
  reply: fc.string({ minLength: 1, maxLength: 5, unit: fc.constantFrom('x', 'y', ' ') }),
  isCut: fc.boolean(),
  /** The reply as it is written again. */
  writtenAgain: fc.constantFrom('same', 'same', 'trimmed', 'other'),
  isPlain: fc.boolean(),
});

type Turn = typeof turn extends fc.Arbitrary<infer Value> ? Value : never;

/** Each turn is sampled after the template's text for the earlier ones. */
function play(turns: readonly Turn[], reward: number, expected: Map<number, Expected>): HistoryItem[] {
  const items: HistoryItem[] = [];
  for (const { question, reply, isCut, writtenAgain, isPlain } of turns) {
    items.push(message('user', question));
    const promptTokenIds = byteTemplate.render(items.map((item) => item.message)).tokenIds;
    const tokenIds = Int32Array.of(...Buffer.from(reply), ...(isCut ? [] : [END_TOKEN]));
    const temperature = isPlain ? 1 : 1 + (expected.size + 1) / 1024;
    const logprobs = Float32Array.from(tokenIds, (id, place) => {
      const logprob = -(expected.size + 1) / 1024;
      expected.set(logprob, {
        context: [...promptTokenIds, ...tokenIds.subarray(0, place)],
        id,
        temperature,
        reward,
      });
      return logprob;
    });
    const kept = new KeptTokensWriter();
    for (const id of tokenIds) kept.add({ isComplement: false, ids: Int32Array.of(3, id).toSorted() });
    const sampling = {
      settings: { ...DEFAULT_SAMPLING, isMasked: true, temperature },
      trace: { logprobs, kept: kept.bytes() },
      lost: null,
    };
    const content = { same: reply, trimmed: reply.trim(), other: 'z' }[writtenAgain];
    items.push({
      kind: 'choice',
      message: { role: 'assistant', content },
      tokenIds,
      logprobs,
      promptTokenIds,
      sampling: isPlain ? null : sampling,
    });
  }
  return items;
}

function contextOf({ tokenIds, parents, sources }: PackedRow, i: number): number[] {
  const path: number[] = [];
  for (let node = sources[i]!; node >= 0; node = parents[node]!) path.unshift(tokenIds[node]!);
  return path;
}

test('every sampled token is in one row, after exactly the tokens of its sampling, drawn as it was', async () => {
  let numBranches = 0;
  let numTokens = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.array(turn, { minLength: 1, maxLength: 4 }), { minLength: 2, maxLength: 4 }), {
        minLength: 1,
        maxLength: 3,
      }),
      fc.boolean(),
      async (games, stepPerRow) => {
        const expected = new Map<number, Expected>();
        const groups = games.map((game) =>
          group(
            ...game.map((turns, reward) => ({
              reward,
              histories: [{ items: play(turns, reward, expected), tools: null }],
            })),
          ),
        );
        const config = resolveTrainingConfig({ packedSequenceLength: 320, stepPerRow, entropyCoef: 0.1 });
        const prepared = await trainingSequences(groups, {
          template: byteTemplate,
          config,
          signal: new AbortController().signal,
        });
        const { report } = prepared;
        const steps = trainingSteps(prepared.sequences, { ...prepared, config, seed: 1 });
        const weightOf = new Map<string, Set<number>>();
        for (const { row, sampledLogprobs, weights, histories, members } of steps.flatMap((step) => step.rows)) {
          sampledLogprobs.forEach((logprob, i) => {
            const own = expected.get(logprob)!;
            expect(expected.delete(logprob)).toBe(true);
            expect(row.targets[i]).toBe(own.id);
            expect(contextOf(row, i)).toEqual(own.context);
            expect(row.replay?.temperatures[i] ?? 1).toBe(own.temperature);
            const set = row.replay?.keptSet[i] ?? -1;
            expect(set >= 0).toBe(own.temperature !== 1);
            if (set >= 0) expect(isKept(row.replay!.keptSets[set]!, own.id)).toBe(true);
            const { groupIndex, trajectoryIndex, advantage } = members[histories[i]!]!;
            expect(trajectoryIndex).toBe(own.reward);
            expect(Math.sign(advantage)).toBe(Math.sign(own.reward - (games[groupIndex]!.length - 1) / 2));
            const key = `${groupIndex} ${trajectoryIndex}`;
            weightOf.set(key, (weightOf.get(key) ?? new Set()).add(weights[i]!));
            numTokens += 1;
          });
        }
        expect(expected.size).toBe(0);
        // All tokens of a trajectory have the same weight, in any of its histories.
        for (const weights of weightOf.values()) expect(weights.size).toBe(1);
        expect(report.numSequencesTrainable).toBe(games.flat().length + report.numBranchedTurns);
        expect(report.numDivergentPrompts).toBe(0);
        numBranches += report.numBranchedTurns;
      },
    ),
    { numRuns: 100 },
  );
  console.log(`${numTokens} tokens, ${numBranches} turns in histories of their own`);
  expect(numBranches).toBeGreaterThan(50);
});
