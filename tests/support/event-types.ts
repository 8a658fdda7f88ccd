import type { TrainingEventObject } from '@trainyard/protocol';

/** Types of a job's events, in order, without its warnings, which depend on the data. */
export function eventTypes(events: readonly Pick<TrainingEventObject, 'type'>[]): string[] {
  return events.map(({ type }) => type).filter((type) => type !== 'warning');
}
