import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { TokenSequenceObject, TrajectoryContent } from '@trainyard/sdk';
import { useMemo, useRef } from 'react';

import { jobQuery } from '../../api/jobs.ts';
import { groupQuery } from '../../api/rollouts.ts';
import { Button } from '../../components/button.tsx';
import { formatCount, formatValue } from '../../components/numbers.ts';
import { useKeys } from '../../components/actions/use-keys.ts';
import { focusToken, type ShownToken, TokenFacts, type TokenPart, TokenText } from '../../tokens/token-text.tsx';
import { probabilityOf } from '../../tokens/token-tone.ts';
import { creditChain } from './credit-chain.ts';
import {
  gapOf,
  isClipped,
  lossRatios,
  type Overlay,
  overlayLevel,
  type RatioRule,
  ratioRule,
} from './token-overlays.ts';
import { TokenStrip } from './token-strip.tsx';
import { maskReason, type TokenRun, tokenRuns } from './token-runs.ts';

/** One trained sequence: how strongly it was trained, a strip of all its tokens, and its text in turns. */
export function TrainedTokens({
  rollout,
  number,
  sequence,
  overlay,
}: {
  rollout: TrajectoryContent;
  number: number;
  sequence: TokenSequenceObject;
  overlay: Overlay;
}) {
  const { data: job } = useQuery({ ...jobQuery(rollout.job_id ?? ''), enabled: rollout.job_id !== null });
  const rule = useMemo(() => (job === undefined ? null : ratioRule(job.config)), [job]);
  const level = rule?.level ?? 'token';
  const ratios = useMemo(() => lossRatios(sequence, level), [sequence, level]);
  const runs = useMemo(() => tokenRuns(sequence.is_trained, itemsOf(rollout, number)), [sequence, rollout, number]);
  const tokens = useMemo(
    () =>
      sequence.texts.map((text, index): ShownToken => {
        const isTrained = sequence.is_trained[index] === true;
        if (!isTrained) return { text, level: 0, isContext: true };
        const ratio = ratios[index] ?? null;
        const clipped = overlay.name === 'ratio' && isClipped(ratio, rule);
        const tone = overlayLevel(overlay.name, sequence, index, ratio);
        return { text, level: tone, isContext: false, isTrained, isClipped: clipped };
      }),
    [sequence, overlay, ratios, rule],
  );
  const parts = useMemo(() => partsOf(runs, overlay.name === 'mask'), [runs, overlay]);
  const section = useRef<HTMLElement>(null);
  const starts = runs.filter(({ isTrained }) => isTrained).map(({ start }) => start);
  const step = (direction: 1 | -1) => {
    const text = section.current?.contains(document.activeElement) ? document.activeElement : null;
    const at = text instanceof HTMLElement && text.dataset['index'] !== undefined ? Number(text.dataset['index']) : -1;
    const next =
      direction === 1
        ? (starts.find((start) => start > at) ?? starts[0])
        : (starts.findLast((start) => start < at) ?? starts.at(-1));
    if (next !== undefined) focusToken(section.current, next);
  };
  useKeys({ n: () => step(1), p: () => step(-1) }, number === 0);
  const label = `Gradient step ${sequence.gradient_step}, history ${number + 1}`;
  return (
    <section ref={section} className="token-section" aria-label={label}>
      <Chain rollout={rollout} sequence={sequence} />
      <div className="token-controls">
        <span>
          <strong>
            {formatCount(sequence.is_trained.filter(Boolean).length)} of {formatCount(tokens.length)} tokens trained
          </strong>
          , in {starts.length} {starts.length === 1 ? 'turn' : 'turns'} · gradient step {sequence.gradient_step}
        </span>
        <span>
          <Button onClick={() => step(-1)} aria-keyshortcuts="p">
            ‹ Previous (p)
          </Button>{' '}
          <Button onClick={() => step(1)} aria-keyshortcuts="n">
            Next (n) ›
          </Button>
        </span>
      </div>
      <TokenStrip
        isTrained={sequence.is_trained}
        onPick={(index) => focusToken(section.current, nearest(sequence, index))}
      />
      {overlay.name === 'gap' && sequence.gradient_step > 0 ? (
        <p className="soft">
          Gradient step {sequence.gradient_step}: earlier steps of this job have changed the policy, so the gap shows
          what it learnt, not only how sampler and trainer differ.
        </p>
      ) : null}
      {overlay.name === 'ratio' && level !== 'token' ? (
        <p className="soft">
          {level === 'sequence'
            ? 'All trained tokens of this history share one ratio, the geometric mean of their own, and are clipped together.'
            : 'The ratio of a token is the mean of its own and that of its whole history.'}
        </p>
      ) : null}
      {overlay.name === 'entropy' && sequence.entropies === null ? (
        <p className="soft">The trainer of this job recorded no entropies.</p>
      ) : null}
      <TokenText
        label={`Tokens of ${label}`}
        tokens={tokens}
        tone={overlay.tone}
        parts={parts}
        opensFolds={overlay.name === 'mask'}
        facts={(index) => <TokenFacts facts={factsOf(sequence, index, ratios[index] ?? null, rule)} />}
      />
    </section>
  );
}

/** The way from the reward to the loss. */
function Chain({ rollout, sequence }: { rollout: TrajectoryContent; sequence: TokenSequenceObject }) {
  const { data } = useInfiniteQuery(groupQuery(rollout));
  const rewards = data?.pages.flatMap((page) => page.data.map(({ reward }) => reward)) ?? [];
  return (
    <ol className="credit-chain" aria-label="From the reward to the loss">
      {creditChain(rollout.reward, rewards, rollout.advantage, sequence).map(({ name, value, help }) => (
        <li key={name} title={help}>
          <span>{name}</span>
          <strong>{formatValue(value)}</strong>
        </li>
      ))}
    </ol>
  );
}

function partsOf(runs: readonly TokenRun[], showsReasons: boolean): TokenPart[] {
  let turn = 0;
  const numTurns = runs.filter(({ isTrained }) => isTrained).length;
  return runs.map((run): TokenPart => {
    const size = run.end - run.start;
    const tokens = `${formatCount(size)} ${size === 1 ? 'token' : 'tokens'}`;
    if (run.isTrained) {
      turn += 1;
      const [message] = run.messages;
      const reward = message?.reward ?? null;
      const words = `Turn ${turn} of ${numTurns} · ${tokens} trained${reward === null ? '' : ` · reward ${formatValue(reward)}`}`;
      return { ...run, isFolded: false, label: words };
    }
    const roles = run.messages.map(({ role }) => (role === 'reply' ? 'assistant, not sampled' : role));
    return {
      ...run,
      isFolded: true,
      label: (
        <>
          {counted(roles).map(([role, count]) => (
            <span key={role} className="token-role">
              {count === 1 ? role : `${count} × ${role}`}
            </span>
          ))}
          {tokens} of context{showsReasons ? `: ${maskReason(run)}` : ''}
        </>
      ),
    };
  });
}

function counted(roles: readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const role of roles) counts.set(role, (counts.get(role) ?? 0) + 1);
  return [...counts];
}

function factsOf(
  sequence: TokenSequenceObject,
  index: number,
  ratio: number | null,
  rule: RatioRule | null,
): (readonly [string, string])[] {
  const gap = gapOf(sequence, index);
  const entropy = sequence.entropies?.[index] ?? null;
  const ratioName = rule === null || rule.level === 'token' ? 'ratio' : `ratio (${rule.level.replaceAll('_', ' ')})`;
  return [
    ['id', String(sequence.token_ids[index])],
    ['sampler probability', probabilityOf(sequence.sampled_logprobs[index] ?? null)],
    ['trainer probability', probabilityOf(sequence.trained_logprobs[index] ?? null)],
    ...(gap === null ? [] : [['gap', formatValue(gap)] as const]),
    ...(ratio === null
      ? []
      : [[ratioName, isClipped(ratio, rule) ? `${formatValue(ratio)}, clipped` : formatValue(ratio)] as const]),
    ...(entropy === null ? [] : [['entropy', `${formatValue(entropy)} nats`] as const]),
    ['advantage', formatValue(sequence.advantage)],
  ];
}

/** The trained token at or after a place, or the last one. */
function nearest({ is_trained: isTrained }: TokenSequenceObject, index: number): number {
  const after = isTrained.indexOf(true, index);
  return after < 0 ? isTrained.lastIndexOf(true) : after;
}

function itemsOf({ content }: TrajectoryContent, number: number): readonly unknown[] {
  const more = content?.['additional_histories'];
  const history = number === 0 ? content : Array.isArray(more) ? (more[number - 1] as unknown) : null;
  const items = (history as Record<string, unknown> | null | undefined)?.['messages_and_choices'];
  return Array.isArray(items) ? items : [];
}
