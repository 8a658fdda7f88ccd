import type { TrainingEventObject } from '@trainyard/sdk';

import { formatValue } from '../components/numbers.ts';

/** Display names of events. */
const WORDS: Readonly<Record<TrainingEventObject['type'], string>> = {
  training_started: 'Started',
  gradient_step: 'Gradient step',
  warning: 'Warning',
  training_ended: 'Ended',
  training_failed: 'Failed',
};

/** The metrics of a gradient step that fit on a line. */
const SHOWN = ['reward', 'policy_loss', 'loss', 'entropy', 'grad_norm', 'clip_fraction', 'tokens_per_second'];
/** Maximum number of events shown: a job may take a hundred thousand gradient steps. */
const MAX_SHOWN = 200;

/** All events of a job, newest first. */
export function JobEvents({ events }: { events: readonly TrainingEventObject[] }) {
  if (events.length === 0) return <p className="soft">No events yet.</p>;
  return (
    <>
      {events.length > MAX_SHOWN ? (
        <p className="soft">
          The newest {MAX_SHOWN} of {events.length}
        </p>
      ) : null}
      <ol className="job-events" tabIndex={0} aria-label="Events" aria-live="off">
        {events.slice(-MAX_SHOWN).map((event) => (
          <li key={event.id} style={{ order: -events.indexOf(event) }}>
            <span>{WORDS[event.type]}</span>
            <span className="soft">{lineOf(event)}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function lineOf({ type, data }: TrainingEventObject): string {
  switch (type) {
    case 'training_started':
      return `${steps(data['num_sequences'])} to come`;
    case 'warning':
      return textOf(data['message']);
    case 'training_failed':
      return textOf(data['error_message']);
    case 'training_ended':
      return textOf(data['message']) || `after ${steps(data['num_gradient_steps'])}`;
    case 'gradient_step':
      return SHOWN.flatMap((name) => {
        const value = data[name];
        return typeof value === 'number' ? [`${name.replaceAll('_', ' ')} ${formatValue(value)}`] : [];
      }).join(' · ');
  }
}

function steps(count: unknown): string {
  return count === 1 ? 'one gradient step' : `${typeof count === 'number' ? count : '?'} gradient steps`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
