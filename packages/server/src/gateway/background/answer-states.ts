import type { Response } from '@trainyard/protocol';
import type { AnswerState, EndedAnswerStatus } from '@trainyard/store';

import { toOrderedJson } from '../../seams/json/ordered-json.ts';

/** Stored states of an answer that is computed in the background. */

type Status = Response['status'];

export function toState<S extends Status>(answer: Response & { status: S }): AnswerState<S> {
  return { status: answer.status, answer: toOrderedJson(answer), itemIds: answer.output.map(({ id }) => id) };
}

export type QueuedAnswer = Response & { status: 'queued' };

export function queuedAnswer(opening: Response): QueuedAnswer {
  return { ...opening, status: 'queued' };
}

/** @param text of the last stored answer */
export function cancelledState(text: string): AnswerState<'cancelled'> {
  return toState({ ...(JSON.parse(text) as Response), status: 'cancelled' });
}

/** @param text as of {@link cancelledState} */
export function failedState(text: string, error: NonNullable<Response['error']>): AnswerState<'failed'> {
  return toState({ ...(JSON.parse(text) as Response), status: 'failed', error });
}

export function isEnded(status: Status): status is EndedAnswerStatus {
  return status !== 'queued' && status !== 'in_progress';
}
