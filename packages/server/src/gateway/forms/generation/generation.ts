import { setTimeout } from 'node:timers/promises';

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ErrorBody } from '@trainyard/protocol';
import type { UsageKind } from '@trainyard/store';

import { callerOf, projectOf } from '../../edge/auth.ts';
import { findAdapter, type ModelInference, withGenerate } from '../../../seams/contract/backends.ts';
import { toErrorAnswer } from '../../../seams/faults/http-faults.ts';
import { BackendFailure } from '../../../seams/faults/backend-failure.ts';
import { isLoadRefusal } from '../../../seams/faults/load-refusal.ts';
import { damagedBecause } from '../../../seams/faults/damaged-files.ts';
import { ChoiceRecorder } from '../../../training-data/choice-records/choice-recorder.ts';
import { isVersionThere, type ResolvedModel } from '../../../seams/contract/model-names.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { conflict, named } from '../shared/conflict.ts';
import { sendEventStream } from '../../answers/sse.ts';
import { type AnswerIdentity, fingerprintOf } from '../shared/collected-choices.ts';
import type { AnswerHold } from '../../../seams/streams/answer-memory.ts';
import type { TokenMeter } from '../../../seams/streams/chat-events.ts';
import type { RequestContext } from '../shared/sampling-request.ts';
import { tracedModel } from '../../../seams/tracing/generation-span.ts';
import { recordFault } from '../../../seams/tracing/request-spans.ts';
import { traceIdOf, traceParentOf } from '../../../seams/tracing/trace-parent.ts';
import { requestedModel } from './requested-model.ts';

/** Shared by chat and text completions between HTTP and the engine. */

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Its streams hold the whole answer, too. */
    holdsAnswer?: boolean;
  }
}

/** A request with a resolved model and its adapter on disk. */
export interface AdmittedModel {
  model: ResolvedModel;
  /** Sampling from its base model. */
  inference: ModelInference;
  context: RequestContext;
  identity: AnswerIdentity;
  /**
   * Id of the answer without prefix, if the service generated it. Absent for client-chosen ids, which may
   * repeat.
   */
  ownId?: string;
  faultOf: (error: unknown) => Promise<unknown>;
  /** Answers of a local engine are never restarted. */
  isWhole: boolean;
  /** Null for a streamed answer. */
  newHold: (() => AnswerHold) | null;
}

/** @param idPrefix of the answer's id, such as `chatcmpl-` */
export async function admitModel(
  request: FastifyRequest,
  body: {
    model?: string | null | undefined;
    request_id?: string | undefined;
    stream?: boolean | null | undefined;
    stream_interval?: number | null | undefined;
  },
  idPrefix: string,
  parts: RouteParts,
): Promise<AdmittedModel> {
  const caller = callerOf(request);
  refuseIdFault(body.request_id);
  const model = await requestedModel(request, body.model, parts);
  const { isRemote = false, adapterFormat = 'peft' } = parts.inference;
  const adapter = await findAdapter(parts.blobs, model, { isRemote, adapterFormat, log: parts.log });
  if (adapter === 'missing') throw deleted(model);
  const requestId = request.headers['x-request-id'] === undefined ? (body.request_id ?? request.id) : request.id;
  const id = `${idPrefix}${requestId}`;
  const isOwn = requestId === request.id && requestId !== request.headers['x-request-id'];
  return {
    model,
    inference: tracedInference(request, parts, {
      model,
      asked: body.model ?? null,
      id,
      isStream: body.stream === true,
    }),
    // The prefix cache is separate per tenant, so that no one can measure another tenant's prompts.
    context: {
      tenant: caller.entityId,
      adapter,
      contextLength: model.base.contextLength,
      vocabSize: model.base.vocabSize,
      maxLogprobs: parts.maxLogprobs,
      logprobsMode: parts.logprobsMode,
      priority: priorityOf(request),
    },
    identity: {
      id,
      created: Math.floor(parts.clock() / 1000),
      model: model.name,
      fingerprint: fingerprintOf(model),
    },
    ...(isOwn ? { ownId: requestId } : {}),
    faultOf: (error) => orDeleted(error, model, caller.entityId, parts),
    isWhole: isRemote && body.stream !== true,
    newHold: isSentAsItComes(request, body) ? null : () => heldUntilTaken(request, parts),
  };
}

/** An id becomes part of database keys, which cannot store such texts. @throws {RequestError} */
function refuseIdFault(requestId: string | undefined): void {
  if (requestId === undefined || (requestId.isWellFormed() && !requestId.includes('\0'))) return;
  throw conflict(named('request_id'), 'an id may hold neither U+0000 nor half of a surrogate pair');
}

function isSentAsItComes(
  { routeOptions }: FastifyRequest,
  { stream, stream_interval }: { stream?: boolean | null | undefined; stream_interval?: number | null | undefined },
): boolean {
  return stream === true && (stream_interval ?? 1) === 1 && routeOptions.config.holdsAnswer !== true;
}

/** Memory of an answer until its client has received it or left. */
function heldUntilTaken({ end }: FastifyRequest, { answerMemory }: RouteParts): AnswerHold {
  const hold = answerMemory.hold();
  end.onEnd(() => hold.release());
  return hold;
}

/**
 * Recorder for one prompt of a request to a trained model; null for other models.
 * @param answerId unique key of its records. Default: generated
 */
export function newRecorder(
  request: FastifyRequest,
  model: ResolvedModel,
  { store }: Pick<RouteParts, 'store'>,
  answerId?: string,
): ChoiceRecorder | null {
  return model.kind === 'checkpoint'
    ? new ChoiceRecorder(store, { entityId: callerOf(request).entityId, model, answerId })
    : null;
}

/**
 * A deleted version loses its files, even during requests for it: then a missing file is not a failure of the
 * service.
 */
async function orDeleted(
  error: unknown,
  model: ResolvedModel,
  entityId: string,
  { store }: RouteParts,
): Promise<unknown> {
  if (!isLoadRefusal(error)) return error;
  if (!(await isVersionThere(store, model, entityId))) return deleted(model);
  return error.code === 'engine.adapter_damaged'
    ? new BackendFailure('engine.adapter_damaged', damagedBecause(model.name, error.message), 'model')
    : error;
}

function deleted({ name }: ResolvedModel): RequestError {
  return new RequestError('request.unknown_model', `The model \`${name}\` was deleted`, { param: 'model' });
}

/** Inference of the request, traced as part of it. */
function tracedInference(
  request: FastifyRequest,
  { inference, tracing }: RouteParts,
  { model, asked, id, isStream }: { model: ResolvedModel; asked: string | null; id: string; isStream: boolean },
): ModelInference {
  const { span, routeOptions } = request;
  const ofModel = inference.of(model.base.id);
  if (tracing === null || span === null) return inference.isRemote === true ? withOrigin(ofModel, request) : ofModel;
  const { genAiOperation: operation = 'chat' } = routeOptions.config;
  const requested = asked ?? model.base.id;
  const about = {
    parent: span,
    operation,
    requested,
    model: model.name,
    responseId: id,
    isStream,
    requestId: request.id,
  };
  return tracedModel(ofModel, tracing, about);
}

/** The same model on other machines, which get the origin of the request. */
function withOrigin(inference: ModelInference, request: FastifyRequest): ModelInference {
  const origin = { requestId: request.id, traceParent: traceParentOf(request) };
  return withGenerate(inference, (asked, signal) => inference.generate({ ...asked, origin }, signal));
}

/** @throws {RequestError} `request.invalid` */
function priorityOf({ headers }: FastifyRequest): number | null {
  const value = headers['x-vllm-priority'];
  if (value === undefined) return null;
  const priority = Number(value);
  if (Number.isSafeInteger(priority) && value !== '') return priority;
  throw RequestError.invalid([
    { loc: ['header', 'x-vllm-priority'], msg: 'Input should be a valid integer', type: 'int_parsing', input: value },
  ]);
}

/**
 * Records the tokens of a request at any end, and before the last bytes of an answer: a completely read
 * answer is counted, even if the service is killed right afterwards.
 * @param run gets one meter per prompt
 */
export async function metered<Result>(
  request: FastifyRequest,
  usage: { kind: UsageKind; model: ResolvedModel; numPrompts: number },
  parts: RouteParts,
  run: (meters: readonly TokenMeter[]) => Promise<Result>,
): Promise<Result> {
  let numOpen = usage.numPrompts;
  let recorded: Promise<void> | null = null;
  const complete = async (): Promise<void> => {
    numOpen -= 1;
    if (numOpen === 0) await record();
  };
  const meters = Array.from({ length: usage.numPrompts }, (): TokenMeter => ({
    promptTokens: 0,
    completionTokens: 0,
    complete,
  }));
  const record = () => (recorded ??= recordTokens(request, usage, parts, meters));
  request.admission?.watch(meters);
  try {
    return await run(meters);
  } finally {
    request.admission?.settle();
    await record();
  }
}

async function recordTokens(
  request: FastifyRequest,
  { kind, model }: { kind: UsageKind; model: ResolvedModel },
  { store }: RouteParts,
  meters: readonly TokenMeter[],
): Promise<void> {
  const promptTokens = meters.reduce((sum, meter) => sum + meter.promptTokens, 0);
  if (promptTokens === 0) return;
  const completionTokens = meters.reduce((sum, meter) => sum + meter.completionTokens, 0);
  const { keyId, entityId } = callerOf(request);
  const project = projectOf(request);
  await store.usage.record({ keyId, entityId, project, model: model.name, kind, promptTokens, completionTokens });
}

/** A streamed answer cannot be replayed. @throws {RequestError} `request.unsupported` */
export function refuseStreamedIdempotency({ headers }: FastifyRequest): void {
  if (headers['idempotency-key'] === undefined) return;
  throw new RequestError('request.unsupported', 'An `Idempotency-Key` is not supported together with `stream`', {
    param: 'stream',
  });
}

export interface StreamForm {
  /** Events have their `type` as name, without a final `[DONE]`. */
  isNamed: boolean;
  toErrorEvent: (body: ErrorBody) => object | readonly object[];
}

const CHAT_STREAM: StreamForm = { isNamed: false, toErrorEvent: ({ error }) => ({ error }) };

export interface StreamOptions {
  readonly signal: AbortSignal;
  /** Default that of a chat. */
  readonly form?: StreamForm;
}

interface OpeningStream<Opened> {
  readonly opening: Promise<Opened>;
  readonly toChunks: (opened: Opened) => AsyncIterable<object>;
}

/** Sends the chunks of an answer as events; a failure midway becomes the last event. */
export async function sendChunks(
  reply: FastifyReply,
  chunks: AsyncIterable<object>,
  parts: RouteParts,
  { signal, form = CHAT_STREAM, startsLate = false }: StreamOptions & { startsLate?: boolean },
): Promise<void> {
  await sendEventStream(reply, chunks, {
    signal,
    startsLate,
    isNamed: form.isNamed,
    toErrorEvent: (error) => {
      const answer = toErrorAnswer(error, 'inference', reply.request.routeOptions.config.fieldNames);
      const { request } = reply;
      recordFault(request, answer.body.error.code);
      if (answer.isInternal)
        parts.log(`request ${request.id} failed in its stream: ${describe(error)}`, {
          level: 'error',
          requestId: request.id,
          traceId: traceIdOf(request),
        });
      return form.toErrorEvent(answer.body);
    },
  });
}

/**
 * Sends the chunks of a generation once it has its first output, so that every refusal has its own HTTP
 * status. After `firstSignMs` the stream starts without output, because clients and proxies close silent
 * connections; a later refusal is then its last event.
 */
export async function sendOpened<Opened>(
  reply: FastifyReply,
  { opening, toChunks }: OpeningStream<Opened>,
  parts: RouteParts,
  options: StreamOptions,
): Promise<void> {
  const timeUp = new AbortController();
  const late = setTimeout(parts.limits.firstSignMs, 'late' as const, { signal: timeUp.signal, ref: false });
  late.catch(() => undefined);
  try {
    const first = await Promise.race([opening.then((opened) => ({ opened })), late]);
    if (first !== 'late') return await sendChunks(reply, toChunks(first.opened), parts, options);
  } finally {
    timeUp.abort();
  }
  await sendChunks(reply, whenOpened({ opening, toChunks }), parts, { ...options, startsLate: true });
}

async function* whenOpened<Opened>({ opening, toChunks }: OpeningStream<Opened>): AsyncGenerator<object, void> {
  yield* toChunks(await opening);
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
