import type { TrainingEventObject, TrainingJobObject } from '@trainyard/sdk';

import { timeOfDay } from '../components/days.ts';
import { formatDuration, formatValue } from '../components/numbers.ts';
import { Words } from '../components/words.tsx';

/** Display names of events. */
const WORDS: Readonly<Record<TrainingEventObject['type'], string>> = {
  training_started: 'Started',
  gradient_step: 'Gradient step',
  held_out: 'Held-out loss',
  warning: 'Warning',
  training_ended: 'Ended',
  training_failed: 'Failed',
};

/** Metrics of a gradient step that fit on a line; the reward is the same for all steps of a job. */
const SHOWN = ['policy_loss', 'loss', 'entropy', 'grad_norm', 'clip_fraction', 'tokens_per_second'];
/** Maximum number of events shown: a job may take a hundred thousand gradient steps. */
const MAX_SHOWN = 200;

/** All events of a job, newest first, each with its time and the time since the one before. */
export function JobEvents({
  events,
  status,
}: {
  events: readonly TrainingEventObject[];
  status: TrainingJobObject['status'];
}) {
  if (events.length === 0) return <p className="soft">No events yet.</p>;
  const first = Math.max(0, events.length - MAX_SHOWN);
  const shown = events.slice(first).toReversed();
  return (
    <>
      {first > 0 ? (
        <p className="soft">
          The newest {MAX_SHOWN} of {events.length}
        </p>
      ) : null}
      <ol className="job-events" tabIndex={0} aria-label="Events, newest first" aria-live="off">
        {shown.map((event, index) => (
          <li key={event.id}>
            <time dateTime={new Date(event.created_at * 1000).toISOString()}>{timeOfDay(event.created_at)}</time>
            <span className="soft job-event-took">{tookOf(event, shown[index + 1] ?? events[first - 1])}</span>
            <span>{status === 'cancelled' && event.type === 'training_failed' ? 'Cancelled' : WORDS[event.type]}</span>
            <span className="soft">
              <Words text={lineOf(event)} />
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}

/** Time since the event before: of a gradient step, how long it took. */
function tookOf(event: TrainingEventObject, before: TrainingEventObject | undefined): string {
  if (before === undefined) return '';
  const seconds = event.created_at - before.created_at;
  return seconds < 10 ? `${Math.max(0, seconds).toFixed(1)} s` : formatDuration(seconds);
}

function lineOf({ type, data }: TrainingEventObject): string {
  switch (type) {
    case 'training_started':
      return `${steps(data['num_sequences'])} to come`;
    case 'held_out':
      return `${typeof data['loss'] === 'number' ? formatValue(data['loss'], 3) : '?'} after ${steps(data['gradient_step'])}`;
    case 'warning':
      return textOf(data['message']);
    case 'training_failed':
      return textOf(data['error_message']);
    case 'training_ended':
      return textOf(data['message']) || `after ${steps(data['num_gradient_steps'])}`;
    case 'gradient_step':
      return SHOWN.flatMap((name) => {
        const value = data[name];
        return typeof value === 'number' ? [`${name.replaceAll('_', ' ')} ${formatValue(value, 3)}`] : [];
      }).join(' · ');
  }
}

function steps(count: unknown): string {
  return count === 1 ? 'one gradient step' : `${typeof count === 'number' ? count : '?'} gradient steps`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
