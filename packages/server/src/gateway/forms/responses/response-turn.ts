import type { FastifyRequest } from 'fastify';
import type { Response, ResponseEvent, ResponseInputItem, ResponsesRequest } from '@trainyard/protocol';
import type {
  ConversationKey,
  ConversationTurn,
  KeepResult,
  KeptScope,
  LiveAnswer,
  NewKeptAnswer,
} from '@trainyard/store';

import type { Completes } from '../../answers/idempotency.ts';
import { callerOf, projectOf } from '../../edge/auth.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { ANSWER_LEASE_MS } from '../../background/background-answers.ts';
import type { ResolvedModel } from '../../../seams/contract/model-names.ts';
import { toOrderedJson } from '../../../seams/json/ordered-json.ts';
import { conflict, invalidAt, unsupported } from '../shared/conflict.ts';
import { refuseOtherFields } from '../shared/refuse-other-fields.ts';
import { isEnded, type QueuedAnswer, toState } from '../../background/answer-states.ts';
import { fromStored, newItems, turnIn } from './conversation-items.ts';
import { type AnswerFacts, conversationAfter, inputItems, type KeptItem, quoted, withIds } from './kept-items.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { resolveReferences } from './item-references.ts';
import { retryTurn } from './retry-turn.ts';
import { type KeptMemory, keptMemoryOf } from './kept-memory.ts';

/** A request of `/v1/responses` with the whole conversation that it continues. */
export interface ResponseTurn {
  /** Request with the whole conversation as its input. */
  readonly body: ResponsesRequest;
  readonly facts: AnswerFacts;
  /** Stores a queued answer, which this process computes, with its first events. @throws {RequestError} */
  begin(
    queued: QueuedAnswer,
    model: ResolvedModel,
    also: { readonly events: readonly ResponseEvent[]; readonly completes: Completes | undefined },
  ): Promise<LiveAnswer>;
  /**
   * Keeps the answer and extends its conversation, if requested.
   * @returns the answer, which shows if it was kept
   */
  keep(answer: Response, model: ResolvedModel, completes?: Completes): Promise<Response>;
  /**
   * Items that an ended answer adds to its conversation. Null without a conversation, and if it failed or was
   * cancelled.
   */
  turnOf(answer: Response): ConversationTurn | null;
}

/** Owner of a request's answers: the entity of its key, and the project that it names. */
export function keptScopeOf(request: FastifyRequest): KeptScope {
  return { entityId: callerOf(request).entityId, project: projectOf(request) ?? '' };
}

/**
 * Looks up the kept items that a request names.
 * @throws {RequestError} `previous_response_not_found`, `request.not_found` for an item,
 * `request.body_too_large` for a conversation above the limit of a body
 */
export async function openTurn(
  request: FastifyRequest,
  body: ResponsesRequest,
  parts: RouteParts,
  { isUse = true }: { readonly isUse?: boolean } = {},
): Promise<ResponseTurn> {
  const scope = keptScopeOf(request);
  const previousId = body.previous_response_id || null;
  const conversation = conversationOf(scope, body, parts);
  if ((body.input ?? null) === null && conversation === null && previousId === null)
    throw invalidAt('input', 'Field required', 'missing');
  const memory = keptMemoryOf(request, parts);
  const history =
    conversation !== null
      ? await itemsOf(conversation, memory, parts, isUse)
      : previousId !== null
        ? await historyOf(scope, previousId, memory, parts)
        : [];
  const own = await resolveReferences(inputItems(body), { scope, memory }, parts);
  const isWhole = history.length === 0 && own === null;
  const sent = own ?? inputItems(body);
  const isKept = parts.keepsAnswers && (body.store ?? true);
  const added = conversation === null ? withIds(sent) : addedTo(history, sent, parts);
  const items = [...history, ...added];
  const facts = {
    isKept,
    isBackground: body.background === true,
    previousId,
    conversationId: conversation?.id ?? null,
  };
  const turnOf = (answer: Response): ConversationTurn | null =>
    conversation === null || !GROWING.has(answer.status) ? null : turnIn(conversation, added, answer);
  return {
    body: isWhole ? body : { ...body, input: [...history, ...sent] },
    facts,
    turnOf,
    begin: async (queued, model, { events, completes }) => {
      const live = {
        ...rowOf(request, { scope, answer: queued, model, items }),
        leaseMs: ANSWER_LEASE_MS,
        events: events.map(toOrderedJson),
      };
      const result = await parts.store.keptAnswers.begin(live, completes?.(queued));
      if (typeof result !== 'string') return result;
      if (result === 'full')
        throw new RequestError(
          'request.too_many',
          'Background answers of this entity fill the space for kept answers (--store-responses-megabytes). Wait until some have ended',
        );
      throw result === 'busy'
        ? conflict('request_id', `An answer with the id ${quoted(queued.id)} is being computed`)
        : new RequestError('request.unknown_model', `The model \`${model.name}\` was deleted`, { param: 'model' });
    },
    keep: async (answer, model, completes) => {
      const { status } = answer;
      const turn = turnOf(answer);
      if (!isEnded(status) || (!isKept && turn === null)) return answer;
      try {
        if (isKept) {
          const row = rowOf(request, { scope, answer: { ...answer, status }, model, items });
          const toAnswer = (result: KeepResult) => (result === 'kept' ? answer : { ...answer, store: false });
          const completesWith = completes && ((result: KeepResult) => completes(toAnswer(result)));
          const { keptAnswers } = parts.store;
          const result =
            turn === null
              ? await keptAnswers.keep(row, undefined, completesWith)
              : await retryTurn(turn, () => keptAnswers.keep(row, turn, completesWith));
          return toAnswer(result);
        }
        if (turn !== null) await retryTurn(turn, () => parts.store.conversations.append(turn, completes?.(answer)));
        return answer;
      } catch (error) {
        // Its client still gets it.
        parts.log(`the answer ${answer.id} is not kept: ${(error as Error).message}`, {
          level: 'warn',
          requestId: request.id,
        });
        return { ...answer, store: false, conversation: null };
      }
    },
  };
}

/** A truncated answer can be continued, so it is a turn. */
const GROWING = new Set<Response['status']>(['completed', 'incomplete']);

/** Conversation that a request names; null for none. @throws {RequestError} */
function conversationOf(
  scope: KeptScope,
  { conversation = null, previous_response_id: previousId }: ResponsesRequest,
  { keepsAnswers }: RouteParts,
): ConversationKey | null {
  if (conversation === null) return null;
  if (typeof conversation === 'object') refuseOtherFields(conversation, ['id'], 'conversation');
  if (previousId)
    throw conflict(
      'conversation',
      '`conversation` and `previous_response_id` cannot be used together: send one of them',
    );
  if (!keepsAnswers) throw unsupported('conversation', NO_CONVERSATIONS);
  return { ...scope, id: typeof conversation === 'string' ? conversation : conversation.id };
}

async function itemsOf(
  conversation: ConversationKey,
  memory: KeptMemory,
  parts: RouteParts,
  isUse: boolean,
): Promise<KeptItem[]> {
  const before = async (numBytes: number) => {
    memory.take(numBytes, 'conversation');
    await memory.open(0);
  };
  const items = await parts.store.conversations.readAll(conversation, { before, isUse });
  if (items === null) throw unknownConversation(conversation.id, 'conversation');
  return items.map(fromStored);
}

function addedTo(
  history: readonly ResponseInputItem[],
  sent: readonly ResponseInputItem[],
  { store }: RouteParts,
): KeptItem[] {
  const { maxItems } = store.conversations.limits;
  if (history.length + sent.length > maxItems)
    throw conflict(
      'conversation',
      `A conversation has at most ${maxItems} items; this one would have ${history.length + sent.length}. Delete items, or start another conversation`,
    );
  return newItems(sent, new Set(history.map(({ id }) => String(id))), 'input');
}

async function historyOf(
  scope: KeptScope,
  id: string,
  memory: KeptMemory,
  parts: RouteParts,
): Promise<ResponseInputItem[]> {
  const kept = await parts.store.keptAnswers.findWhole(scope, id, async (numBytes) => {
    memory.take(numBytes, 'previous_response_id');
    await memory.open(0);
  });
  if (kept === null) throw unknownAnswer('Previous response', id, 'previous_response_id');
  if (!isEnded(kept.status))
    throw conflict(
      'previous_response_id',
      `The response ${quoted(id)} is ${kept.status}. Continue it after it has ended`,
    );
  return conversationAfter(kept);
}

interface Answered<Status extends Response['status']> {
  readonly scope: KeptScope;
  readonly answer: Response & { readonly status: Status };
  readonly model: ResolvedModel;
  readonly items: readonly ResponseInputItem[];
}

function rowOf<Status extends Response['status']>(
  request: FastifyRequest,
  { scope, answer, model, items }: Answered<Status>,
): NewKeptAnswer<Status> {
  return {
    ...scope,
    ...toState(answer),
    id: answer.id,
    keyId: callerOf(request).keyId,
    modelId: model.kind === 'checkpoint' ? model.modelId : null,
    input: JSON.stringify(withIds(items)),
  };
}

export function unknownAnswer(what: string, id: string, param: string): RequestError {
  return new RequestError('previous_response_not_found', `${what} with id ${quoted(id)} not found.`, { param });
}

export const NO_CONVERSATIONS = 'this service keeps no conversations (--store-responses off)';

export function unknownConversation(id: string, param: string): RequestError {
  return new RequestError('request.not_found', `Conversation with id ${quoted(id)} not found.`, { param });
}
