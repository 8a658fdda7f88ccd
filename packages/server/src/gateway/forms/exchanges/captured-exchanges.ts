/** Trajectories that a client recorded as calls (`exchanges`) instead of as messages and choices; ART does from 0.5.19 on. */
import type {
  SentTrajectoryGroup,
  WireExchanges,
  WireHistory,
  WireTrajectory,
  WireTrajectoryGroup,
} from '@trainyard/protocol';

import { parseModelName } from '../../../seams/contract/model-names.ts';
import { type CallHistory, chatHistories, OTHER_FORMS } from './call-histories.ts';
import { checkFinite } from '../../../training-data/wire/check-finite.ts';
import { withReadableResults } from '../../../seams/chat/readable-results.ts';
import { withChatCalls } from '../../../training-data/wire/langchain-calls.ts';
import { type Place, TrajectoryFormatError } from '../../../training-data/wire/trajectory-format-error.ts';

/** The model that is trained, by the names that calls to it had. */
export interface PolicyNames {
  readonly entity: string;
  readonly project: string;
  readonly name: string;
}

/** The names of a model that are sent to the body thread. */
export function policyNames({ entity, project, name }: PolicyNames): PolicyNames {
  return { entity, project, name };
}

const FORMS = ['completions', 'responses', 'messages'] as const;

/** Where the parts of a call were in the body, for each history that it became. */
interface Source {
  /** Place of the call, below the trajectory. */
  readonly call: Place;
  readonly placeInCall: CallHistory['placeInCall'];
}
const sources = new WeakMap<WireTrajectory, readonly Source[]>();

/**
 * A group as it is stored and read: defaults are filled in, and calls of the policy become histories, one for each choice, with the messages that it
 * was sampled after. An assistant's turn among these is trained where it was sampled, in the history of its own call.
 *
 * Calls of other models, a judge's for instance, are left out and counted.
 *
 * @param index place of the group in the job, for messages
 * @throws {TrajectoryFormatError} for calls beside histories, for calls of the policy whose tokens are not known, and for metadata that
 * cannot be written again
 */
export function completeGroup(
  group: SentTrajectoryGroup,
  index: number,
  policy: PolicyNames,
): { group: WireTrajectoryGroup; numForeignExchanges: number } {
  let numForeignExchanges = 0;
  const groupPlace: Place = ['body', 'trajectory_groups', index];
  checkFinite(group.metadata, [...groupPlace, 'metadata']);
  const trajectories = (group.trajectories ?? []).map((trajectory, number): WireTrajectory => {
    const place: Place = [...groupPlace, 'trajectories', number];
    checkFinite(trajectory.metadata, [...place, 'metadata']);
    const { exchanges, ...rest } = { ...trajectory, reward: trajectory.reward ?? 0 };
    if (exchanges === undefined || exchanges === null || isEmpty(exchanges)) return withReadableMessages(rest);
    const told = readExchanges(exchanges, place, policy);
    if (rest.messages_and_choices?.length || rest.additional_histories?.length || rest.tools) {
      throw invalid(
        [...place, 'exchanges'],
        'Input should be empty if `messages_and_choices`, `tools` or `additional_histories` is set',
      );
    }
    numForeignExchanges += told.numForeign;
    const [first, ...others] = told.histories;
    const complete: WireTrajectory = { ...rest, ...first, additional_histories: others };
    sources.set(complete, told.sources);
    return complete;
  });
  return { group: { ...group, trajectories }, numForeignExchanges };
}

/** Where the body has what a complete group has at a place: the same, but for what came from calls. */
export function placeInBody(group: WireTrajectoryGroup, place: Place): Place {
  // body, trajectory_groups, N, trajectories, N, then additional_histories, N when it is not the first
  const trajectory = group.trajectories[Number(place[4])];
  const from = trajectory && sources.get(trajectory);
  const isFurther = place[5] === 'additional_histories';
  const rest = place.slice(isFurther ? 7 : 5);
  const source = from?.[isFurther ? Number(place[6]) + 1 : 0];
  if (source === undefined || (rest[0] !== 'messages_and_choices' && rest[0] !== 'tools')) return place;
  return [...place.slice(0, 5), ...source.call, ...source.placeInCall(rest)];
}

function readExchanges(exchanges: WireExchanges, place: Place, policy: PolicyNames) {
  const histories: WireHistory[] = [];
  const from: Source[] = [];
  let numForeign = 0;
  const add = (call: Place, told: readonly CallHistory[]) => {
    for (const { history, placeInCall } of told) {
      histories.push(history);
      from.push({ call, placeInCall });
    }
  };
  for (const [index, exchange] of (exchanges.chat_completions ?? []).entries()) {
    const { model, request, response } = exchange;
    if (isPolicy(model ?? request.model ?? response.model, policy))
      add(['exchanges', 'chat_completions', index], chatHistories(exchange));
    else numForeign += 1;
  }
  for (const form of FORMS) {
    for (const [index, exchange] of (exchanges[form] ?? []).entries()) {
      const { model, request, response } = exchange;
      const call: Place = ['exchanges', form, index];
      if (isPolicy(model ?? request?.['model'] ?? response?.['model'], policy))
        add(call, OTHER_FORMS[form](exchange, [...place, ...call]));
      else numForeign += 1;
    }
  }
  return { histories, sources: from, numForeign };
}

/** Whether a call went to the model that is trained; a call without a name did. Any step of it is the policy: what was sampled says which. */
function isPolicy(model: unknown, policy: PolicyNames): boolean {
  if (model === undefined || model === null) return true;
  const name = typeof model === 'string' ? parseModelName(model) : null;
  if (name === null || name.name !== policy.name) return false;
  return name.project === null || (name.project === policy.project && name.entity === policy.entity);
}

function withReadableMessages(trajectory: WireTrajectory): WireTrajectory {
  const { messages_and_choices: items, additional_histories: others } = trajectory;
  return {
    ...trajectory,
    ...(items === undefined ? {} : { messages_and_choices: readable(items) }),
    ...(others === undefined
      ? {}
      : {
          additional_histories: others.map((history) => ({
            ...history,
            messages_and_choices: readable(history.messages_and_choices),
          })),
        }),
  };
}

/** Calls in the form of LangChain are those of a chat, and results of tools are text, as in the chat that was sampled from. */
function readable<Items extends unknown[]>(items: Items): Items {
  return withReadableResults(withChatCalls(items) as Items);
}

function isEmpty(exchanges: WireExchanges): boolean {
  return [exchanges.chat_completions, ...FORMS.map((form) => exchanges[form])].every((list) => !list?.length);
}

function invalid(loc: Place, msg: string): TrajectoryFormatError {
  return new TrajectoryFormatError({ loc: [...loc], msg, type: 'value_error' });
}
