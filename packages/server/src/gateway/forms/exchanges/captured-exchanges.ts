/**
 * Trajectories that a client recorded as calls (`exchanges`) instead of messages and choices, as ART does
 * since 0.5.19.
 */
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

/** The trained model, by its names in calls. */
export interface PolicyNames {
  readonly entity: string;
  readonly project: string;
  readonly name: string;
}

export function policyNames({ entity, project, name }: PolicyNames): PolicyNames {
  return { entity, project, name };
}

const FORMS = ['completions', 'responses', 'messages'] as const;

/** Place in the body of the parts of a call, for each history made from it. */
interface Source {
  readonly call: Place;
  readonly placeInCall: CallHistory['placeInCall'];
}
const sources = new WeakMap<WireTrajectory, readonly Source[]>();

/**
 * Converts a group to its stored form: fills in defaults, and turns calls of the policy into histories, one
 * per choice, with the messages of its context. Earlier assistant turns in these are trained where they were
 * sampled, in the history of their own call.
 * Calls of other models, such as a judge's, are dropped and counted.
 * @param index place of the group in the job, for messages
 * @throws {TrajectoryFormatError} for calls next to histories, for calls of the policy with unknown tokens,
 * and for metadata that cannot be serialised
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
    const found = readExchanges(exchanges, place, policy);
    if (rest.messages_and_choices?.length || rest.additional_histories?.length || rest.tools) {
      throw invalid(
        [...place, 'exchanges'],
        'Input should be empty if `messages_and_choices`, `tools` or `additional_histories` is set',
      );
    }
    numForeignExchanges += found.numForeign;
    const [first, ...others] = found.histories;
    const complete: WireTrajectory = { ...rest, ...first, additional_histories: others };
    sources.set(complete, found.sources);
    return complete;
  });
  return { group: { ...group, trajectories }, numForeignExchanges };
}

/** Converts a place in a complete group to the body's: equal, except for parts made from calls. */
export function placeInBody(group: WireTrajectoryGroup, place: Place): Place {
  // body, trajectory_groups, N, trajectories, N, then additional_histories, N unless it is the first
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
  const add = (call: Place, found: readonly CallHistory[]) => {
    for (const { history, placeInCall } of found) {
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

/**
 * True if a call went to the trained model, or named none. Any step of it counts as the policy: the record
 * has the step.
 */
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

/** Converts LangChain calls to those of a chat, and tool results to text, as in the sampled chat. */
function readable<Items extends unknown[]>(items: Items): Items {
  return withReadableResults(withChatCalls(items) as Items);
}

function isEmpty(exchanges: WireExchanges): boolean {
  return [exchanges.chat_completions, ...FORMS.map((form) => exchanges[form])].every((list) => !list?.length);
}

function invalid(loc: Place, msg: string): TrajectoryFormatError {
  return new TrajectoryFormatError({ loc: [...loc], msg, type: 'value_error' });
}
