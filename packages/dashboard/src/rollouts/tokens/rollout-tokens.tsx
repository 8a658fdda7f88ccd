import { useQuery } from '@tanstack/react-query';
import type { SampledChoiceObject, TrajectoryContent } from '@trainyard/sdk';
import { useMemo } from 'react';
import { useSearchParams } from 'wouter';

import { rolloutTokensQuery } from '../../api/rollouts.ts';
import { Fault } from '../../components/fault.tsx';
import { FilterSelect } from '../../components/lists/filter-select.tsx';
import { TokenFacts, TokenLegend, TokenText } from '../../tokens/token-text.tsx';
import { probabilityOf, SURPRISE_LEGEND, surpriseLevel } from '../../tokens/token-tone.ts';
import { outcomeWords } from '../outcome-words.ts';
import { OVERLAYS } from './token-overlays.ts';
import { TrainedTokens } from './trained-tokens.tsx';

/** The tokens of a rollout with their data from sampling and training. */
export function RolloutTokens({ rollout }: { rollout: TrajectoryContent }) {
  const { data, error } = useQuery(rolloutTokensQuery(rollout.id));
  const [parameters] = useSearchParams();
  const overlay = OVERLAYS.find(({ name }) => name === parameters.get('colour')) ?? OVERLAYS[0]!;
  if (data === undefined) return error === null ? null : <Fault error={error} />;
  const { sequences, choices } = data;
  if (sequences.length === 0)
    return (
      <>
        <p>
          {rollout.outcome === 'trained'
            ? 'Its trained tokens are kept once its gradient step is done, and are removed with old data.'
            : `None of its tokens was trained. ${outcomeWords(rollout.outcome, rollout.job_id === null).long}`}{' '}
          {choices.length === 0
            ? 'Its replies have no token ids, or their data were removed.'
            : 'These are its replies as sampled; the messages between them have no tokens.'}
        </p>
        {choices.map((choice) => (
          <SampledTokens key={`${choice.history}.${choice.item}`} choice={choice} />
        ))}
      </>
    );
  return (
    <>
      <div className="token-controls">
        <FilterSelect
          name="colour"
          label="Colour"
          options={OVERLAYS.map(({ name, text }) => [name, text] as const)}
          fallback={overlay.name}
        />
        <TokenLegend tone={overlay.tone} levels={overlay.legend} isTrained={overlay.name !== 'mask'} />
        <span className="soft">{overlay.help} Context has no background.</span>
      </div>
      {sequences.map((sequence, index) => (
        <TrainedTokens key={index} rollout={rollout} number={index} sequence={sequence} overlay={overlay} />
      ))}
    </>
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
        <TokenLegend tone="surprise" levels={SURPRISE_LEGEND} />
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
