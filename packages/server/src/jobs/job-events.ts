import { isRolloutMetric } from '@trainyard/protocol';
import type { ClaimedJob, NewEvent, NewStepUsage } from '@trainyard/store';
import { ignoredSettingsWarning, type TrainerEvent, type TrainingResult } from '@trainyard/trainer';

export interface WireEvent {
  type: string;
  data: object;
  dedupeKey: string;
  /** Points of the model's run; a gradient step has them. */
  metrics?: Record<string, number>;
  /** Points of the step that the job's rollouts were drawn from; a gradient step has them. */
  rolloutMetrics?: Record<string, number>;
  /** The tokens that the job's key is charged with; a gradient step has them. */
  usage?: NewStepUsage;
  /** The fate of each trajectory; the start of a job on rollouts has them. */
  outcomes?: NonNullable<NewEvent['outcomes']>;
}

/** The rows of an event: itself, and after the start the warning of settings without effect, which is so the first of all. */
export function wireEvents(event: TrainerEvent, job: ClaimedJob): [WireEvent, ...WireEvent[]] {
  const row = wireEvent(event, job);
  if (event.kind !== 'training_started' || (job.kind !== 'rl' && job.kind !== 'sft')) return [row];
  const warning = ignoredSettingsWarning(job.kind, ignoredKeys(job));
  return warning === null ? [row] : [row, wireEvent({ kind: 'warning', warning }, job)];
}

/** The event as clients read it. The dedupe key makes a repeated event of a resumed job one event. */
export function wireEvent(event: TrainerEvent, job: ClaimedJob): WireEvent {
  switch (event.kind) {
    case 'training_started':
      return {
        type: 'training_started',
        data: {
          ...event.data,
          num_sequences: event.numGradientSteps,
          ...rolloutCounts(job),
          ignored_config_keys: ignoredKeys(job),
        },
        dedupeKey: 'training_started',
        ...(event.outcomes === undefined ? {} : { outcomes: event.outcomes }),
      };
    case 'gradient_step':
      return {
        type: 'gradient_step',
        data: event.metrics,
        dedupeKey: `gradient_step:${event.index}`,
        ...trainMetrics(event.metrics),
        usage: stepUsage(event.index, event.metrics),
      };
    case 'warning':
      return { type: 'warning', data: event.warning, dedupeKey: `warning:${event.warning.code}` };
    default:
      return event satisfies never;
  }
}

/** Trained tokens are those that the loss is of; the others of their sequences are what they stand behind. */
function stepUsage(index: number, metrics: Readonly<Record<string, number>>): NewStepUsage {
  const { num_trainable_tokens: trained = 0 } = metrics;
  const all = metrics['num_sequence_tokens'] ?? metrics['num_tokens'] ?? trained;
  return { numRequests: index === 0 ? 1 : 0, promptTokens: Math.max(0, all - trained), completionTokens: trained };
}

/** Metrics of training under their full names: those of the update, and those of the rollouts. */
export function trainMetrics(metrics: Readonly<Record<string, number>>): {
  metrics: Record<string, number>;
  rolloutMetrics: Record<string, number>;
} {
  const all = Object.entries(metrics).map(([name, value]): [string, number] => [`train/${name}`, value]);
  const [ofRollouts, ofUpdate] = [true, false].map((is) => all.filter(([name]) => isRolloutMetric(name) === is));
  return { metrics: Object.fromEntries(ofUpdate!), rolloutMetrics: Object.fromEntries(ofRollouts!) };
}

/** Data of `training_ended`: how much was trained, and in words when that is nothing. */
export function endData(result: TrainingResult): object {
  const { numGradientSteps, metrics } = result;
  if (numGradientSteps > 0) return { num_gradient_steps: numGradientSteps };
  const reasons = Object.entries(metrics)
    .filter(([name]) => name.startsWith(DROPPED))
    .map(([name, count]) => `${count} ${name.slice(DROPPED.length)}`);
  const why = reasons.length === 0 ? 'the job had no trainable groups' : `groups dropped: ${reasons.join(', ')}`;
  return { num_gradient_steps: 0, message: `nothing was trained, the weights are unchanged; ${why}` };
}

/** One line for the log of the service, of what somebody may have meant otherwise; null when there is nothing to say. */
export function startedLine(event: TrainerEvent, job: ClaimedJob): string | null {
  if (event.kind === 'warning') {
    const { code, message, suggestion } = event.warning;
    return `job ${job.id}: warning ${code}: ${message}; ${suggestion}`;
  }
  if (event.kind !== 'training_started') return null;
  const ignored = ignoredKeys(job);
  const { num_groups_submitted: submitted, num_groups_trainable: trainable, dropped_groups: dropped } = event.data;
  const lines = [
    ...(ignored.length > 0 ? [`settings without effect: ${ignored.join(', ')}`] : []),
    ...(submitted === trainable
      ? []
      : [
          `${JSON.stringify(trainable)} of ${JSON.stringify(submitted)} groups are trained, dropped: ${JSON.stringify(dropped)}`,
        ]),
  ];
  return lines.length === 0 ? null : `job ${job.id}: ${lines.join('; ')}`;
}

const DROPPED = 'num_groups_dropped_';

/** Counts taken when the rollouts came in; other jobs have none. */
function rolloutCounts({ config }: ClaimedJob): Record<string, number> {
  const counts = {
    num_unknown_records: config['numUnknownRecords'],
    num_foreign_exchanges: config['numForeignExchanges'],
  };
  return Object.fromEntries(
    Object.entries(counts).filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
  );
}

function ignoredKeys(job: ClaimedJob): string[] {
  const keys = job.config['ignoredKeys'];
  return Array.isArray(keys) ? keys.map(String) : [];
}
