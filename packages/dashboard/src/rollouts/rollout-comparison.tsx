import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { TrajectoryContent, TrajectoryObject } from '@trainyard/sdk';
import { useMemo } from 'react';
import { Link, useSearchParams } from 'wouter';

import { rolloutPagesQuery, rolloutQuery } from '../api/rollouts.ts';
import { Fault } from '../components/fault.tsx';
import { changed } from '../components/lists/changed.ts';
import { formatValue } from '../components/numbers.ts';
import { conversationOf, finalReply } from './conversation.ts';
import { diffWords } from './diff-words.ts';
import { shownName } from '../components/shown-name.ts';

/** Compares a rollout with another one of the same prompt at a different step. */
export function RolloutComparison({ rollout }: { rollout: TrajectoryContent }) {
  const digest = rollout.prompt_digest;
  if (digest === null) return <p className="soft">It has no prompt to find at other steps.</p>;
  return <Comparison rollout={rollout} digest={digest} />;
}

function Comparison({ rollout, digest }: { rollout: TrajectoryContent; digest: string }) {
  const [parameters, setParameters] = useSearchParams();
  const { data, error } = useInfiniteQuery(rolloutPagesQuery(rollout.model_id, { prompt_digest: digest }));
  const others = useMemo(
    () => (data?.pages.flatMap((page) => page.data) ?? []).filter(({ id }) => id !== rollout.id),
    [data, rollout.id],
  );
  const chosen = others.find(({ id }) => id === parameters.get('with')) ?? otherStep(others, rollout.step);
  if (data === undefined) return error === null ? null : <Fault error={error} />;
  if (chosen === undefined) return <p className="soft">No other rollout of this model has the same prompt.</p>;
  return (
    <>
      {rollout.question === null ? null : (
        <p>
          Same prompt: <b>{rollout.question}</b>
        </p>
      )}
      <label className="inline-field">
        Compare with
        <select
          className="input"
          value={chosen.id}
          onChange={({ target }) => setParameters((before) => changed(before, { view: 'compare', with: target.value }))}
        >
          {others.map((other) => (
            <option key={other.id} value={other.id}>
              {nameOf(other)}
            </option>
          ))}
        </select>
      </label>
      <Texts rollout={rollout} other={chosen} />
    </>
  );
}

function Texts({ rollout, other }: { rollout: TrajectoryContent; other: TrajectoryObject }) {
  const { data, error } = useQuery(rolloutQuery(other.id));
  const [first, second] = useMemo(() => {
    const text = (content: TrajectoryContent['content'] | undefined) =>
      content === null || content === undefined ? null : finalReply(conversationOf(content));
    const [here, there] = [text(rollout.content), text(data?.content)];
    return rollout.step <= other.step ? [here, there] : [there, here];
  }, [rollout, other, data]);
  const [before, after] = rollout.step <= other.step ? [rollout, other] : [other, rollout];
  const parts = useMemo(() => (first === null || second === null ? [] : diffWords(first, second)), [first, second]);
  if (error !== null) return <Fault error={error} />;
  if (data === undefined) return null;
  if (first === null || second === null)
    return <p className="soft">The messages of one of them were removed with old data.</p>;
  return (
    <>
      <section className="compare-diff" aria-label="Differences">
        <h2>
          Differences between step {before.step} and step {after.step}
        </h2>
        <p className="compare-text">
          {first === second ? <span className="soft">Both are the same. </span> : null}
          {parts.map(({ kind, text }, index) =>
            kind === 'same' ? (
              <span key={index}>{text}</span>
            ) : kind === 'removed' ? (
              <del key={index}>{text}</del>
            ) : (
              <ins key={index}>{text}</ins>
            ),
          )}
        </p>
        <p className="soft">Crossed out: removed. Underlined: added.</p>
      </section>
      <div className="compare-columns">
        {(
          [
            [before, first],
            [after, second],
          ] as const
        ).map(([one, text]) => (
          <article key={one.id}>
            <h3>
              <Link href={`/rollouts/${one.id}`}>{nameOf(one)}</Link>
            </h3>
            <p className="compare-text">{text}</p>
          </article>
        ))}
      </div>
    </>
  );
}

function nameOf({ step, split, reward, group, index }: TrajectoryObject): string {
  return `Step ${step} (${shownName(split)}), reward ${formatValue(reward)}, group ${group}, #${index}`;
}

/** The best rollout of the step that is furthest away. */
function otherStep(others: readonly TrajectoryObject[], step: number): TrajectoryObject | undefined {
  return others.toSorted(
    (first, second) => Math.abs(second.step - step) - Math.abs(first.step - step) || second.reward - first.reward,
  )[0];
}
