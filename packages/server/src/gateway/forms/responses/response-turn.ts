import type { FastifyRequest } from 'fastify';
import type { Response, ResponseEvent, ResponseInputItem, ResponsesRequest } from '@trainyard/protocol';
import type { BeforeUnpacking, EndedAnswerStatus, KeptScope, LiveAnswer, NewKeptAnswer } from '@trainyard/store';

import { callerOf, projectOf } from '../../edge/auth.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { ANSWER_LEASE_MS } from '../../background/background-answers.ts';
import type { ResolvedModel } from '../../../seams/contract/model-names.ts';
import { toOrderedJson } from '../../../seams/json/ordered-json.ts';
import { conflict } from '../shared/conflict.ts';
import { isEnded, type QueuedAnswer, toState } from '../../background/answer-states.ts';
import { type AnswerFacts, conversationAfter, inputItems, outputOf, referenceOf, withIds } from './kept-items.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

/** Different items of kept answers that one request may refer to: each is looked up. A reasoning model's agent makes two in a step. */
const MAX_REFERENCES = 1024;

/** A request of `/v1/responses` with the whole conversation that it continues. */
export interface ResponseTurn {
  /** The request; its input is the whole conversation. */
  readonly body: ResponsesRequest;
  readonly facts: AnswerFacts;
  /** Keeps a queued answer, which this process computes, with its first events. @throws {RequestError} */
  begin(queued: QueuedAnswer, model: ResolvedModel, events: readonly ResponseEvent[]): Promise<LiveAnswer>;
  /** Keeps the answer where the request asks for it. @returns the answer, which says whether it was kept */
  keep(answer: Response, model: ResolvedModel): Promise<Response>;
}

/** Owner of the answers of a request: the entity of its key, and the project that it names. */
export function keptScopeOf(request: FastifyRequest): KeptScope {
  return { entityId: callerOf(request).entityId, project: projectOf(request) ?? '' };
}

/**
 * Looks up the kept items that a request names.
 *
 * @throws {RequestError} `previous_response_not_found`, `request.not_found` for an item, `request.body_too_large` for a conversation above the limit of a body
 */
export async function openTurn(
  request: FastifyRequest,
  body: ResponsesRequest,
  parts: RouteParts,
): Promise<ResponseTurn> {
  const scope = keptScopeOf(request);
  const previousId = body.previous_response_id || null;
  const room = roomOf(request, parts);
  const history = previousId === null ? [] : await historyOf(scope, previousId, room, parts);
  const own = await resolveReferences(scope, body, room, parts);
  const isWhole = history.length === 0 && own === null;
  const items = [...history, ...(own ?? inputItems(body))];
  const isKept = parts.keepsAnswers && (body.store ?? true);
  const facts = { isKept, isBackground: body.background === true, previousId };
  return {
    body: isWhole ? body : { ...body, input: items },
    facts,
    begin: async (queued, model, events) => {
      const result = await parts.store.keptAnswers.begin({
        ...rowOf(request, { scope, answer: queued, model, items }),
        leaseMs: ANSWER_LEASE_MS,
        events: events.map(toOrderedJson),
      });
      if (typeof result !== 'string') return result;
      if (result === 'no_room')
        throw new RequestError(
          'request.too_many',
          'Answers in the background of this entity fill the room for kept answers (--store-responses-megabytes). Wait until some have ended',
        );
      throw result === 'busy'
        ? conflict('request_id', `An answer with the id ${quoted(queued.id)} is being computed`)
        : new RequestError('request.unknown_model', `The model \`${model.name}\` was deleted`, { param: 'model' });
    },
    keep: async (answer, model) => {
      const { status } = answer;
      if (!isKept || !isEnded(status)) return answer;
      const isThere = await keep(request, { scope, answer: { ...answer, status }, model, items }, parts);
      return isThere ? answer : { ...answer, store: false };
    },
  };
}

/** Room that a request takes for kept answers, all together. */
interface KeptRoom {
  /** Charges what is unpacked for a while. */
  readonly open: BeforeUnpacking;
  /** Counts what becomes a part of the conversation. @param param names what asks for it @throws {RequestError} `request.body_too_large` */
  take(numBytes: number, param: string): void;
}

/** Charges for texts of the store as for a body of that size. */
function roomOf(request: FastifyRequest, { limits: { chatBodyBytes } }: RouteParts): KeptRoom {
  let taken = 0;
  let charged = 0;
  return {
    open: async (numBytes) => {
      const more = taken + numBytes - charged;
      if (more <= 0) return;
      await request.bodyRoom?.charge(more);
      charged += more;
    },
    take: (numBytes, param) => {
      taken += numBytes;
      if (taken <= chatBodyBytes) return;
      throw new RequestError(
        'request.body_too_large',
        `What \`${param}\` names and what stands before it have more than ${chatBodyBytes} bytes (${taken}): no conversation of this length can be continued. Send a shorter one as \`input\``,
        { param },
      );
    },
  };
}

async function historyOf(
  scope: KeptScope,
  id: string,
  room: KeptRoom,
  parts: RouteParts,
): Promise<ResponseInputItem[]> {
  const kept = await parts.store.keptAnswers.findWhole(scope, id, async (numBytes) => {
    room.take(numBytes, 'previous_response_id');
    await room.open(0);
  });
  if (kept === null) throw unknownAnswer('Previous response', id, 'previous_response_id');
  if (!isEnded(kept.status))
    throw conflict(
      'previous_response_id',
      `The response ${quoted(id)} is ${kept.status}: continue it when it has ended`,
    );
  return conversationAfter(kept);
}

/** The input with kept items in place of references; null if it has none. */
async function resolveReferences(
  scope: KeptScope,
  body: ResponsesRequest,
  room: KeptRoom,
  { store }: RouteParts,
): Promise<ResponseInputItem[] | null> {
  const items = inputItems(body);
  const ids = items.map(referenceOf);
  const wanted = new Set(ids.filter((id) => id !== null));
  if (wanted.size === 0) return null;
  if (wanted.size > MAX_REFERENCES)
    throw conflict(
      'input',
      `The input refers to ${wanted.size} items; at most ${MAX_REFERENCES} can be referred to. Send the items themselves, or name the answer before with \`previous_response_id\``,
    );
  const known = new Map<string, { readonly item: ResponseInputItem; readonly numBytes: number }>();
  const resolved: ResponseInputItem[] = [];
  for (const [index, item] of items.entries()) {
    const id = ids[index] ?? null;
    if (id === null) {
      resolved.push(item);
      continue;
    }
    if (!known.has(id)) {
      // One answer at a time: what is not referred to is not held.
      const answer = await store.keptAnswers.findItem(scope, id, room.open);
      for (const [itemId, found] of answer === null ? [] : outputOf(answer))
        if (wanted.has(itemId) && !known.has(itemId))
          known.set(itemId, { item: found, numBytes: Buffer.byteLength(JSON.stringify(found)) });
    }
    const found = known.get(id);
    if (found === undefined)
      throw new RequestError(
        'request.not_found',
        `Item with id ${quoted(id)} not found. Send the item itself; clients do so with \`store: false\``,
        { param: `input.${index}.id` },
      );
    // Also one that is named again: it is in the prompt again.
    room.take(found.numBytes, `input.${index}`);
    resolved.push(found.item);
  }
  await room.open(0);
  return resolved;
}

interface Answered<Status extends Response['status']> {
  readonly scope: KeptScope;
  readonly answer: Response & { readonly status: Status };
  readonly model: ResolvedModel;
  readonly items: readonly ResponseInputItem[];
}

/** @returns whether it was kept. Its client gets the answer in any case */
async function keep(
  request: FastifyRequest,
  ended: Answered<EndedAnswerStatus>,
  { store, log }: RouteParts,
): Promise<boolean> {
  try {
    return (await store.keptAnswers.keep(rowOf(request, ended))) === 'kept';
  } catch (error) {
    log(`the answer ${ended.answer.id} is not kept: ${(error as Error).message}`, {
      level: 'warn',
      requestId: request.id,
    });
    return false;
  }
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

/** @param param names the id, in the body or the path */
export function unknownAnswer(what: string, id: string, param: string): RequestError {
  return new RequestError('previous_response_not_found', `${what} with id ${quoted(id)} not found.`, { param });
}

function quoted(id: string): string {
  return JSON.stringify(id.slice(0, 100));
}
