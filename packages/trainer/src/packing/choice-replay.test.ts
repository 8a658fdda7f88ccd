import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import type { ChoiceSampling, SamplingChanges } from '@trainyard/protocol/fields';
import { KeptTokensWriter, type ChoiceItem } from '@trainyard/tokenizer';
import { describe, expect, it } from 'vitest';
import { drawAt, ReplayLedger, rowReplay } from './choice-replay.ts';
import { resolveTrainingConfig } from '../config/training-config.ts';
import { packRows } from './pack.ts';
import { answer, byteTemplate, choice, END_TOKEN, group, message } from '../testing/chat-groups.ts';
import { trainingSequences } from '../rollouts/training-sequences.ts';

const PLAIN: SamplingChanges = {
  ...DEFAULT_SAMPLING,
  isMasked: false,
};
const TEXT = 'ab';
const IDS = [...Buffer.from(TEXT), END_TOKEN];

/** Drawn from three tokens that include it, but the first from all. */
function traced(ids: readonly number[] = IDS): NonNullable<ChoiceSampling['trace']> {
  const kept = new KeptTokensWriter();
  ids.forEach((id, place) =>
    kept.add(place === 0 ? null : { isComplement: false, ids: Int32Array.of(1, 2, id).toSorted() }),
  );
  return { logprobs: Float32Array.from(ids, (_, place) => -0.1 * place), kept: kept.bytes() };
}

const sampling = (changes: Partial<SamplingChanges>, trace: ChoiceSampling['trace'] = traced()): ChoiceSampling => ({
  settings: { ...PLAIN, ...changes },
  trace,
  lost: trace === null ? 'too_large' : null,
});
const item = (fields: Partial<ChoiceItem>): ChoiceItem => ({ ...(choice(TEXT) as ChoiceItem), ...fields });

describe('ReplayLedger', () => {
  it('replays choices with a trace, keeps plain ones, and counts the rest by reason and by setting', () => {
    const ledger = new ReplayLedger({ allowsUnknown: true });
    const replayed = ledger.prepare(item({ sampling: sampling({ temperature: 0.5 }) })) as ChoiceItem;
    expect([...replayed.logprobs]).toEqual([...traced().logprobs]);
    const others = [
      item({ sampling: null }),
      item({}),
      item({ sampling: sampling({ isMasked: true, topP: 0.9 }, null) }),
      item({ sampling: { ...sampling({ temperature: 0 }, null), lost: 'greedy' } }),
      item({ sampling: sampling({ presencePenalty: 1 }, traced(IDS.slice(1))) }),
    ];
    for (const other of [...others, message('user', 'hi')]) expect(ledger.prepare(other)).toBe(other);
    expect(ledger.report()).toEqual({
      numChoices: 6,
      numReplayed: 1,
      unreplayed: { unknown: 1, too_large: 1, greedy: 1, unreadable: 1 },
      refused: {},
      changes: { constraint: 1, truncation: 1, temperature: 1, penalties: 1 },
    });
    expect(
      ledger.placed([
        { start: 7, choice: replayed },
        { start: 20, choice: others[0]! },
      ]),
    ).toMatchObject([{ start: 7, replay: { temperature: 0.5, shifts: null } }]);
  });

  it('replays no more than fits into the memory of a job', () => {
    const size = traced().kept.length;
    const ledger = new ReplayLedger({ maxTraceBytes: 2 * size + 1 });
    for (let i = 0; i < 4; i++) ledger.prepare(item({ sampling: sampling({ topP: 0.9 }) }));
    expect(ledger.report()).toMatchObject({ numReplayed: 2, refused: { too_large: 2 }, changes: {} });
  });

  it.each<[string, Partial<SamplingChanges>]>([
    ['temperature', { temperature: 0.5 }],
    ['truncation', { topP: 0.9 }],
    ['truncation', { topK: 3 }],
    ['truncation', { minP: 0.1 }],
    ['constraint', { isMasked: true }],
    ['penalties', { logitBias: [[1, 3]] }],
    ['penalties', { repetitionPenalty: 1.2 }],
    ['penalties', { frequencyPenalty: -0.5 }],
    ['penalties', { presencePenalty: 0.5 }],
  ])('counts only %s for a choice drawn under %j', (change, settings) => {
    const ledger = new ReplayLedger({ allowsUnknown: true });
    ledger.prepare(item({ sampling: sampling(settings, null) }));
    expect(ledger.report().changes).toEqual({ [change]: 1 });
  });

  it('replays nothing for a learner without replay, and reports it', () => {
    const ledger = new ReplayLedger({ canReplay: false, allowsUnknown: true });
    const drawn = item({ sampling: sampling({ temperature: 0.5 }) });
    expect(ledger.prepare(drawn)).toBe(drawn);
    ledger.prepare(item({ sampling: sampling({ isMasked: true }, null) }));
    expect(ledger.report()).toMatchObject({
      numReplayed: 0,
      unreplayed: { unsupported: 1, too_large: 1 },
      changes: { temperature: 1, constraint: 1 },
    });
  });

  it('takes no trace of other tokens, of log-probabilities that are none, or without the prompt that a penalty counts', () => {
    const bad: ChoiceSampling[] = [
      sampling({}, { ...traced(), logprobs: Float32Array.of(-1, -1) }),
      sampling({}, { ...traced(), logprobs: Float32Array.of(-1, 0.5, -1) }),
      sampling({}, traced([5, 6, 7])),
      sampling({}, { ...traced(), kept: Uint8Array.of(9) }),
      sampling({ repetitionPenalty: 1.2 }),
    ];
    const ledger = new ReplayLedger();
    for (const one of bad) ledger.prepare(item({ sampling: one }));
    expect(ledger.report()).toMatchObject({ numReplayed: 0, refused: { unreadable: bad.length } });
    const prompt = { promptTokenIds: Int32Array.of(4), sampling: sampling({ repetitionPenalty: 1.2 }) };
    ledger.prepare(item(prompt));
    expect(ledger.report().numReplayed).toBe(1);
  });
});

describe('choices with an unknown distribution', () => {
  const unreported = { ...traced(), logprobs: Float32Array.of(-1, Number.NaN, -1) };
  const CASES: readonly [reason: string, fields: Partial<ChoiceItem>][] = [
    ['too_large', { sampling: sampling({ topP: 0.9 }, null) }],
    ['undetermined', { sampling: { ...sampling({ topP: 0.9 }, null), lost: 'undetermined' } }],
    ['record_gone', { isRecordLost: true }],
    ['policy_gone', { sampling: sampling({ temperature: 0.5 }, unreported) }],
    ['policy_gone', { sampling: sampling({ temperature: 0.5 }, unreported), policyDigest: 'gone' }],
    ['unreadable', { sampling: sampling({ presencePenalty: 1 }, traced(IDS.slice(1))) }],
    // Log-probabilities after penalties are neither the model's nor those of a greedy draw.
    [
      'undetermined',
      {
        sampling: {
          ...sampling({ temperature: 0, presencePenalty: 1, hasProcessedLogprobs: true }, null),
          lost: 'greedy',
        },
      },
    ],
  ];

  it.each(CASES)('%s: they are context, unless a setting allows them', (reason, fields) => {
    const refusing = new ReplayLedger({ hasPolicy: (digest) => digest === 'there' });
    expect(refusing.prepare(item(fields))).toMatchObject({ isContext: true });
    expect(refusing.report()).toMatchObject({ refused: { [reason]: 1 }, unreplayed: {}, changes: {} });
    const allowing = new ReplayLedger({ allowsUnknown: true });
    const allowed = item(fields);
    expect(allowing.prepare(allowed)).toBe(allowed);
    expect(allowing.report()).toMatchObject({ refused: {}, unreplayed: { [reason]: 1 } });
  });

  it('log-probabilities that were not reported wait for the adapter that drew the tokens', () => {
    const ledger = new ReplayLedger({ hasPolicy: (digest) => digest === 'there' });
    const drawn = ledger.prepare(item({ sampling: sampling({ temperature: 0.5 }, unreported), policyDigest: 'there' }));
    expect(drawn).toMatchObject({ logprobs: unreported.logprobs });
    expect(ledger.placed([{ start: 0, choice: drawn as ChoiceItem }])).toMatchObject([
      { replay: { policyDigest: 'there' } },
    ]);
  });
});

it('each trained token of a row is drawn as its own choice was, next to any other', async () => {
  const drawn = (reward: number, changes: Partial<SamplingChanges> | null) => {
    const { histories } = answer(reward, TEXT, 'hi');
    const [question] = histories[0]!.items;
    const sampled = item(changes === null ? { sampling: null } : { sampling: sampling(changes) });
    return { reward, histories: [{ items: [question!, sampled], tools: null }] };
  };
  const groups = [
    group(
      drawn(0, { temperature: 0.5 }),
      drawn(1, null),
      drawn(2, { temperature: 2, logitBias: [[1, 3]] }),
      drawn(4, null),
    ),
  ];
  const parts = { template: byteTemplate, config: resolveTrainingConfig({}), signal: new AbortController().signal };
  const { sequences, maxTokens, report } = await trainingSequences(groups, parts);
  expect(report.sampling).toMatchObject({ numChoices: 4, numReplayed: 2, unreplayed: {} });
  const [row] = packRows(sequences, maxTokens, 3);
  const { temperatures, keptSet, keptSets, shift, shifts, numGenerated } = row!.row.replay!;
  const ofAdvantage = new Map(sequences.map(({ advantage, replays }) => [advantage, replays?.[0]?.replay]));
  for (const [i, advantage] of row!.advantages.entries()) {
    const replay = ofAdvantage.get(advantage);
    const place = i % IDS.length;
    expect(temperatures[i]).toBe(replay?.temperature ?? 1);
    expect(keptSets[keptSet[i]!]).toEqual(replay === undefined ? undefined : replay.sets[replay.setOf[place]!]);
    expect(shifts[shift[i]!] ?? null).toEqual(replay?.shifts ?? null);
    if (replay !== undefined) expect(numGenerated[i]).toBe(place);
    expect(row!.sampledLogprobs[i]).toBeCloseTo(replay === undefined ? -1 : -0.1 * place, 6);
  }
  expect(shifts).toHaveLength(1);
});

it('a row without such tokens has no replay', () => {
  expect(rowReplay([null, null])).toBeNull();
  expect(drawAt(undefined, 3)).toBeNull();
  expect(drawAt([], 3)).toBeNull();
});
