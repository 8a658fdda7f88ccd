import { useQuery } from '@tanstack/react-query';
import type { SampledChoiceObject, TokenSequenceObject, TrajectoryContent } from '@trainyard/sdk';
import { useMemo, useState } from 'react';

import { rolloutTokensQuery } from '../api/rollouts.ts';
import { Fault } from '../components/fault.tsx';
import { formatValue } from '../components/numbers.ts';
import { type ShownToken, TokenFacts, TokenLegend, TokenText } from '../tokens/token-text.tsx';
import { formatProbability, signedLevel, surpriseLevel } from '../tokens/token-tone.ts';
import { outcomeWords } from './outcome-words.ts';

type Colouring = 'probability' | 'advantage' | 'gap';

const COLOURINGS: readonly { name: Colouring; text: string; words: readonly [string, string] }[] = [
  { name: 'probability', text: 'Probability', words: ['expected', 'surprising'] },
  { name: 'advantage', text: 'Advantage', words: ['made less likely', 'made more likely'] },
  { name: 'gap', text: 'Trainer against sampler', words: ['less likely when trained', 'more likely when trained'] },
];

/** Difference of log-probabilities with the strongest colour. */
const LARGEST_GAP = 0.5;

/** The tokens of a rollout with their data from sampling and training. */
export function RolloutTokens({ rollout }: { rollout: TrajectoryContent }) {
  const { data, error } = useQuery(rolloutTokensQuery(rollout.id));
  const [colouring, setColouring] = useState<Colouring>('probability');
  if (data === undefined) return error === null ? null : <Fault error={error} />;
  const { sequences, choices } = data;
  if (sequences.length === 0)
    return (
      <>
        <p>
          No trained tokens are kept for it. {outcomeWords(rollout.outcome, rollout.job_id === null).long}{' '}
          {choices.length === 0
            ? 'Its replies have no token ids, or their data were removed.'
            : 'These are its replies as sampled; the messages between them have no tokens.'}
        </p>
        {choices.map((choice) => (
          <SampledTokens key={`${choice.history}.${choice.item}`} choice={choice} />
        ))}
      </>
    );
  const { words } = COLOURINGS.find(({ name }) => name === colouring)!;
  return (
    <>
      <div className="token-controls">
        <label className="inline-field">
          Colour
          <select
            className="input"
            value={colouring}
            onChange={({ target }) => setColouring(target.value as Colouring)}
          >
            {COLOURINGS.map(({ name, text }) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <TokenLegend tone={toneOf(colouring)} words={words} />
        <span className="soft">Grey text is context and was not trained.</span>
      </div>
      {sequences.map((sequence, index) => (
        <TrainedTokens key={index} number={index} sequence={sequence} sequences={sequences} colouring={colouring} />
      ))}
    </>
  );
}

function TrainedTokens({
  number,
  sequence,
  sequences,
  colouring,
}: {
  number: number;
  sequence: TokenSequenceObject;
  sequences: readonly TokenSequenceObject[];
  colouring: Colouring;
}) {
  const tokens = useMemo(() => {
    const largest = Math.max(...sequences.map(({ advantage }) => Math.abs(advantage)));
    return sequence.texts.map((text, index): ShownToken => {
      const isContext = !sequence.is_trained[index];
      const sampled = sequence.sampled_logprobs[index] ?? null;
      const level =
        colouring === 'probability'
          ? surpriseLevel(sampled)
          : colouring === 'advantage'
            ? signedLevel(sequence.advantage, largest)
            : signedLevel(gapOf(sequence, index), LARGEST_GAP);
      return { text, level: isContext ? 0 : level, isContext };
    });
  }, [sequence, sequences, colouring]);
  const numTrained = sequence.is_trained.filter(Boolean).length;
  const label = `Gradient step ${sequence.gradient_step}, history ${number + 1}`;
  return (
    <section className="token-section" aria-label={label}>
      <p>
        Gradient step <strong>{sequence.gradient_step}</strong> · {numTrained} of {tokens.length} tokens trained ·
        advantage <strong>{formatValue(sequence.advantage)}</strong> · weight {formatValue(sequence.weight)}
      </p>
      <TokenText
        label={`Tokens of ${label}`}
        tokens={tokens}
        tone={toneOf(colouring)}
        facts={(index) => <TokenFacts facts={trainedFacts(sequence, index)} />}
      />
    </section>
  );
}

function SampledTokens({ choice }: { choice: SampledChoiceObject }) {
  const tokens = useMemo(
    () =>
      choice.token_ids.map((id, index) => ({
        text: choice.texts?.[index] ?? `[${id}] `,
        level: surpriseLevel(choice.sampled_logprobs[index] ?? null),
        isContext: false,
      })),
    [choice],
  );
  return (
    <section className="token-section" aria-label={`Reply at position ${choice.item}`}>
      <div className="token-controls">
        <span>
          Reply at position {choice.item}
          {choice.history === 0 ? '' : ` of history ${choice.history + 1}`}
        </span>
        <TokenLegend tone="surprise" words={['expected', 'surprising']} />
      </div>
      <TokenText
        label={`Tokens of the reply at position ${choice.item}`}
        tokens={tokens}
        tone="surprise"
        facts={(index) => (
          <TokenFacts
            facts={[
              ['id', choice.token_ids[index]],
              ['sampler probability', probabilityOf(choice.sampled_logprobs[index] ?? null)],
              ['trained', 'no'],
            ]}
          />
        )}
      />
    </section>
  );
}

function trainedFacts(sequence: TokenSequenceObject, index: number): (readonly [string, string])[] {
  const gap = gapOf(sequence, index);
  return [
    ['id', String(sequence.token_ids[index])],
    ['sampler probability', probabilityOf(sequence.sampled_logprobs[index] ?? null)],
    ['trainer probability', probabilityOf(sequence.trained_logprobs[index] ?? null)],
    ...(gap === null ? [] : [['log-probability difference', formatValue(gap)] as const]),
    ['advantage', formatValue(sequence.advantage)],
  ];
}

function gapOf(sequence: TokenSequenceObject, index: number): number | null {
  const sampled = sequence.sampled_logprobs[index] ?? null;
  const trained = sequence.trained_logprobs[index] ?? null;
  return sampled === null || trained === null ? null : trained - sampled;
}

function probabilityOf(logprob: number | null): string {
  return logprob === null ? 'not known' : `${formatProbability(logprob)} (${formatValue(logprob)})`;
}

function toneOf(colouring: Colouring): 'surprise' | 'signed' {
  return colouring === 'probability' ? 'surprise' : 'signed';
}
