import './rollout-page.css';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { TrajectoryContent } from '@trainyard/sdk';
import { Fragment } from 'react';
import { Link } from 'wouter';

import { useUnappliedJobs } from '../api/jobs.ts';
import { modelQuery } from '../api/models.ts';
import { rolloutQuery } from '../api/rollouts.ts';
import { CopyButton } from '../components/copy-button.tsx';
import { Fault } from '../components/fault.tsx';
import { formatCount, formatValue } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { StatusDot } from '../components/status-dot.tsx';
import { Words } from '../components/words.tsx';
import { conversationOf, numSharedTurns, promptTurns } from './conversation.ts';
import { outcomeWords } from './outcome-words.ts';
import { RolloutComparison } from './rollout-comparison.tsx';
import { RolloutTokens } from './tokens/rollout-tokens.tsx';
import { FoldedTurns } from './folded-turns.tsx';
import { Ago } from '../components/time.tsx';
import { Neighbours } from './table/neighbours.tsx';
import { useAddress } from './table/use-address.ts';
import { shownName } from '../components/shown-name.ts';

const VIEWS = [
  { name: '', text: 'Conversation' },
  { name: 'tokens', text: 'Tokens' },
  { name: 'compare', text: 'Same prompt at other steps' },
  { name: 'json', text: 'JSON' },
] as const;

/** One rollout: its messages, its tokens, and its prompt at other steps. */
export function RolloutPage({ rolloutId }: { rolloutId: string }) {
  // The links to its neighbours stay while the next one loads: they keep the focus, and miss no key.
  const { data, error, isPlaceholderData } = useQuery({
    ...rolloutQuery(rolloutId),
    placeholderData: keepPreviousData,
  });
  const neighbours = data === undefined ? null : <Neighbours rolloutId={rolloutId} inGroupOf={data} />;
  const rollout = isPlaceholderData ? undefined : data;
  const { data: named } = useQuery({ ...modelQuery(rollout?.model_id ?? ''), enabled: rollout !== undefined });
  const statuses = useUnappliedJobs(data?.model_id ?? '');
  const parameters = useAddress();
  const view = parameters.get('view') ?? '';
  const list = parameters.get('list');
  if (rollout === undefined)
    return (
      <Page title="Rollout" path={<Link href="/models">Models</Link>}>
        {neighbours}
        {error === null ? null : <Fault error={error} />}
      </Page>
    );
  const words = outcomeWords(rollout.outcome, rollout.job_id === null, statuses.get(rollout.job_id ?? ''));
  const model = `/models/${encodeURIComponent(rollout.model_id)}`;
  const ofStep = `${model}/rollouts?step=${rollout.step}&split=${encodeURIComponent(rollout.split)}`;
  const group = `${rollout.job_id ?? rollout.log_id}.${rollout.group}`;
  return (
    <Page
      title={`Rollout ${rollout.index} of group ${rollout.group}`}
      path={
        <>
          <Link href="/models">Models</Link> /{' '}
          <Link href={model}>{named === undefined ? 'model' : shownName(named.name)}</Link> /{' '}
          <Link href={ofStep}>
            step {rollout.step} ({shownName(rollout.split)})
          </Link>{' '}
          / <Link href={`${ofStep}&group=${encodeURIComponent(group)}`}>group {rollout.group}</Link>
          {rollout.job_id === null ? null : (
            <>
              {' '}
              · <Link href={`/jobs/${encodeURIComponent(rollout.job_id)}`}>job</Link>
            </>
          )}
          {list === null ? null : (
            <>
              {' '}
              · <Link href={`${model}/rollouts?${list}`}>list</Link>
            </>
          )}
        </>
      }
    >
      {neighbours}
      <div className="rollout-facts">
        <span>
          Reward <strong>{formatValue(rollout.reward)}</strong>
        </span>
        {rollout.advantage === null ? null : (
          <span>
            Advantage <strong>{formatValue(rollout.advantage)}</strong>
          </span>
        )}
        <RolloutLength rollout={rollout} />
        <StatusDot tone={words.tone}>{words.short}</StatusDot>
        <span className="soft">
          <Words text={words.long} />
        </span>
      </div>
      <nav className="tabs" aria-label="Of this rollout">
        {VIEWS.map(({ name, text }) => (
          <Link
            key={name}
            href={viewHref(rolloutId, parameters, name)}
            aria-current={name === view ? 'page' : undefined}
          >
            {text}
          </Link>
        ))}
      </nav>
      <Fragment key={rolloutId}>
        {view === 'tokens' ? (
          <RolloutTokens rollout={rollout} />
        ) : view === 'compare' ? (
          <RolloutComparison rollout={rollout} />
        ) : view === 'json' && rollout.content !== null ? (
          <RolloutJson content={rollout.content} />
        ) : (
          <Conversation rollout={rollout} />
        )}
      </Fragment>
    </Page>
  );
}

/** Address of a view of a rollout, in the list that it was opened from. */
function viewHref(rolloutId: string, parameters: URLSearchParams, view: string): string {
  const list = parameters.get('list');
  const next = new URLSearchParams({ ...(view === '' ? {} : { view }), ...(list === null ? {} : { list }) });
  return `/rollouts/${rolloutId}${next.size === 0 ? '' : `?${next}`}`;
}

/** Number of replies and tokens, reason of the end, and time. */
function RolloutLength({ rollout }: { rollout: TrajectoryContent }) {
  const { num_turns: turns, num_tokens: tokens, finish_reason: reason, created_at: at } = rollout;
  return (
    <>
      {tokens === null ? null : (
        <span>
          Tokens <strong>{formatCount(tokens)}</strong>
        </span>
      )}
      {turns === null || turns < 2 ? null : (
        <span>
          Turns <strong>{formatCount(turns)}</strong>
        </span>
      )}
      {reason === null ? null : <span>Ended by {shownName(reason.replaceAll('_', ' '))}</span>}
      <span className="soft">
        <Ago at={at} />
      </span>
    </>
  );
}

/** The rollout as it was sent. */
function RolloutJson({ content }: { content: object }) {
  const text = JSON.stringify(content, null, 2);
  return (
    <>
      <CopyButton text={text} />
      <pre className="rollout-json" tabIndex={0} role="region" aria-label="JSON of this rollout">
        {text}
      </pre>
    </>
  );
}

function Conversation({ rollout }: { rollout: TrajectoryContent }) {
  if (rollout.content === null)
    return (
      <p className="soft">
        Its messages were removed with old data (<code>--trajectory-days</code>).
      </p>
    );
  const histories = conversationOf(rollout.content);
  const metadata = rollout.content['metadata'];
  const metrics = rollout.content['metrics'];
  const facts = Object.entries({ ...(metadata as object), ...(metrics as object) });
  return (
    <>
      {facts.length === 0 ? null : (
        <dl className="rollout-metrics">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{shownName(name)}</dt>
              <dd>{shownName(typeof value === 'string' ? value : JSON.stringify(value))}</dd>
            </div>
          ))}
        </dl>
      )}
      {histories.map((history, index) => (
        <section key={index} className="rollout-history" aria-label={`History ${index + 1}`}>
          {histories.length > 1 ? <h2>History {index + 1}</h2> : null}
          {history.tools.length === 0 ? null : (
            <p className="soft">
              Tools:{' '}
              {history.tools.map((name) => (
                <code key={name}>{name} </code>
              ))}
            </p>
          )}
          <FoldedTurns turns={history.turns} numShared={numSharedTurns(promptTurns([history]), [])} />
        </section>
      ))}
    </>
  );
}
