import { isRolloutMetric } from '@trainyard/protocol';
import { mixesSamplers } from '@trainyard/protocol/fields';
import type { ClaimedJob, NewEvent, NewStepUsage } from '@trainyard/store';
import { ignoredSettingsWarning, type TrainerEvent, type TrainingResult } from '@trainyard/trainer';

export interface WireEvent {
  type: string;
  data: object;
  dedupeKey: string;
  /** Points of the model's run; for gradient steps and held-out data. */
  metrics?: Record<string, number>;
  /** Points of the step that sampled the job's rollouts; for gradient steps. */
  rolloutMetrics?: Record<string, number>;
  /** Tokens charged to the job's key; for gradient steps. */
  usage?: NewStepUsage;
  /** Outcome of each trajectory; for the start of a job on rollouts. */
  outcomes?: NonNullable<NewEvent['outcomes']>;
}

/**
 * Rows of an event: itself, and after the start the warning about settings without effect, which so comes
 * before all others.
 */
export function wireEvents(event: TrainerEvent, job: ClaimedJob): [WireEvent, ...WireEvent[]] {
  const row = wireEvent(event, job);
  if (event.kind !== 'training_started' || (job.kind !== 'rl' && job.kind !== 'sft')) return [row];
  const warning = ignoredSettingsWarning(job.kind, ignoredKeys(job));
  return warning === null ? [row] : [row, wireEvent({ kind: 'warning', warning }, job)];
}

/** Event in the API's form. The dedupe key merges the repeated events of a resumed job. */
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
        ...withOwnMetrics(trainMetrics(event.metrics), job, event.index),
        usage: stepUsage(event.index, event.metrics),
      };
    case 'held_out':
      return {
        type: 'held_out',
        data: { gradient_step: event.numSteps, ...event.measures },
        dedupeKey: `held_out:${event.numSteps}`,
        metrics: heldOutMetrics(event.measures),
      };
    case 'warning':
      return { type: 'warning', data: event.warning, dedupeKey: `warning:${event.warning.code}` };
    default:
      return event satisfies never;
  }
}

/** Adds the means of the rollouts' own metrics, which came with the job, to its first gradient step. */
function withOwnMetrics<Metrics extends { rolloutMetrics: Record<string, number> }>(
  metrics: Metrics,
  job: ClaimedJob,
  index: number,
): Metrics {
  return index > 0 ? metrics : { ...metrics, rolloutMetrics: { ...metrics.rolloutMetrics, ...ownMetrics(job) } };
}

/** Means of the metrics that the rollouts of a job came with, by full name. */
export function ownMetrics({ config }: ClaimedJob): Record<string, number> {
  return (config['rolloutMetrics'] as Record<string, number> | undefined) ?? {};
}

/** Trained tokens are those of the loss; the other tokens of the sequences are their context. */
function stepUsage(index: number, metrics: Readonly<Record<string, number>>): NewStepUsage {
  const { num_trainable_tokens: trained = 0 } = metrics;
  const all = metrics['num_sequence_tokens'] ?? metrics['num_tokens'] ?? trained;
  return { numRequests: index === 0 ? 1 : 0, promptTokens: Math.max(0, all - trained), completionTokens: trained };
}

/**
 * Training metrics under their full names: of the update, and of the rollouts. Comparisons with the sampler
 * only as `train/fresh/…` and `train/updated/…`.
 */
export function trainMetrics(metrics: Readonly<Record<string, number>>): {
  metrics: Record<string, number>;
  rolloutMetrics: Record<string, number>;
} {
  const all = Object.entries(metrics)
    .filter(([name]) => !mixesSamplers(name))
    .map(([name, value]): [string, number] => [name.startsWith(HELD_OUT) ? name : `train/${name}`, value]);
  const [ofRollouts, ofUpdate] = [true, false].map((is) => all.filter(([name]) => isRolloutMetric(name) === is));
  return { metrics: Object.fromEntries(ofUpdate!), rolloutMetrics: Object.fromEntries(ofRollouts!) };
}

/** Data of `training_ended`: the number of steps, or the reasons if nothing was trained. */
export function endData(result: TrainingResult): object {
  const { numGradientSteps, metrics } = result;
  if (numGradientSteps > 0) return { num_gradient_steps: numGradientSteps };
  const reasons = Object.entries(metrics)
    .filter(([name]) => name.startsWith(DROPPED))
    .map(([name, count]) => `${count} ${name.slice(DROPPED.length)}`);
  const why = reasons.length === 0 ? 'the job had no trainable groups' : `groups dropped: ${reasons.join(', ')}`;
  return { num_gradient_steps: 0, message: `nothing was trained, the weights are unchanged; ${why}` };
}

/** Log line about a possible mistake of the user; null if there is none. */
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
/** Measures of weights, not of training. */
const HELD_OUT = 'held_out/';

/** The measure of a `held_out` event under its full name. */
export function heldOutMetrics({ loss }: { readonly loss: number }): Record<string, number> {
  return { [`${HELD_OUT}loss`]: loss };
}

/** Counts from when the rollouts came in; other jobs have none. */
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
