import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';

import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { LastKnown } from '@trainyard/store';

import { FeedWatch } from './answers/feed-watch.ts';
import { compressAnswers } from './edge/compress-answers.ts';
import { type ErrorForm, requireKeys } from './edge/auth.ts';
import { limitKeys } from './edge/limit-keys.ts';
import { TrajectoryBodyReader } from './trajectory-bodies/accept-trajectory-bodies.ts';
import { BackgroundAnswers } from './background/background-answers.ts';
import { BodyIntake } from './bodies/body-intake.ts';
import { ByteBudget } from './bodies/byte-budget.ts';
import { answerClientFault } from '../seams/faults/client-faults.ts';
import { answerEarly, drainAfter } from '../seams/faults/early-answers.ts';
import { shareAcrossOrigins } from './edge/cross-origin.ts';
import { reportIgnoredFields } from './edge/ignored-fields.ts';
import { refuseForeignHosts } from './edge/host-check.ts';
import { asContextExceeded, toErrorAnswer } from '../seams/faults/http-faults.ts';
import { acceptJsonBodies } from './bodies/json-body.ts';
import { KeyLimiter } from './key-limits/key-limiter.ts';
import { KeyWatch } from './edge/key-watch.ts';
import { REQUEST_ID } from '../seams/network/request-id.ts';
import { trackRequestEnds } from './edge/request-end.ts';
import { endStalledReaders } from './edge/stalled-readers.ts';
import { recordFault, traceRequests } from '../seams/tracing/request-spans.ts';
import { closeWhileDraining, Drain, refuseWhileClosing } from '../seams/health/drain.ts';
import { ServiceHealth } from '../seams/health/service-health.ts';
import { traceIdOf } from '../seams/tracing/trace-parent.ts';
import { VersionUse } from '../jobs/checkpoints/version-use.ts';
import { BaseModels } from '../seams/contract/base-models.ts';
import { AnswerMemory } from '../seams/streams/answer-memory.ts';
import { measuredInference } from '../seams/metrics/measured-inference.ts';
import { ServiceMetrics } from '../seams/metrics/service-metrics.ts';
import { RequestError } from '../seams/faults/request-error.ts';
import { refuseOtherQueries } from '../seams/faults/other-queries.ts';
import { refuseRouteMisses } from '../seams/faults/route-misses.ts';
import { artifactRoutes } from './routes/training/artifacts.ts';
import { adapterRoutes } from './routes/models/adapters.ts';
import { chatCompletionRoutes } from './forms/chat/route.ts';
import { baseModelRoutes } from './routes/models/base-models.ts';
import { checkpointRoutes } from './routes/models/checkpoints.ts';
import { completionRoutes } from './forms/completions/route.ts';
import { exportRoutes } from './routes/models/exports.ts';
import { dashboardRoutes } from './routes/service/dashboard.ts';
import { sessionRoutes } from './routes/service/session.ts';
import { guideRoutes } from './routes/service/guides.ts';
import { homeRoutes } from './routes/service/home.ts';
import { healthRoutes } from './routes/service/health.ts';
import { keyRoutes } from './routes/service/keys.ts';
import { tokenGenerationRoutes } from './forms/tokens/route.ts';
import { keptResponseRoutes } from './forms/responses/kept-responses.ts';
import { conversationItemRoutes } from './forms/conversations/items-route.ts';
import { conversationRoutes } from './forms/conversations/route.ts';
import { loraAdapterRoutes } from './routes/models/lora-adapters.ts';
import { messageRoutes } from './forms/messages/route.ts';
import { metricsRoutes } from './routes/service/metrics.ts';
import { modelDetailsRoutes } from './routes/models/model-details.ts';
import { modelRoutes } from './routes/models/models.ts';
import { previewModelRoutes } from './routes/models/preview-models.ts';
import { serviceEventRoutes } from './routes/service/events.ts';
import { hostRoutes } from './routes/service/hosts.ts';
import { usageRoutes } from './routes/service/usage.ts';
import { seriesRoutes } from './routes/models/series.ts';
import { trajectoryRoutes } from './routes/training/trajectories.ts';
import { trainingQueueRoutes } from './routes/training/training-queue.ts';
import { referenceRoutes } from './routes/service/reference.ts';
import { responseRoutes } from './forms/responses/route.ts';
import { sftJobRoutes } from './routes/training/sft-jobs.ts';
import { tokenizeRoutes } from './forms/tokens/tokenize.ts';
import { trainingJobRetryRoutes } from './routes/training/training-job-retry.ts';
import { trainingJobControlRoutes } from './routes/training/training-job-control.ts';
import { trainingJobRoutes } from './routes/training/training-jobs.ts';
import { trajectoryLogRoutes } from './routes/training/trajectory-logs.ts';
import { DEFAULT_HTTP_LIMITS, type RouteParts, type ServerParts } from './parts/server-parts.ts';
import { compileValidator, toValidationItems, type ValidatedPart } from '../seams/faults/validation.ts';
import { DEFAULT_MAX_LOGPROBS } from '../seams/contract/max-logprobs.ts';
import { speaksAnthropic, toMessagesError } from './forms/messages/error.ts';

/** Node refuses longer ones, so every name in a path reaches its route, which has its own limit. */
const MAX_PATH_PART_CHARACTERS = process.getBuiltinModule('node:http').maxHeaderSize;

/** Number of bodies of the maximum size that may be incoming or in flight; others wait for up to a minute. */
const BODIES_AT_A_TIME = 32;

/**
 * Creates the HTTP server from its parts. It does not listen: the caller uses `listen` or `inject`. Every
 * path also works with a trailing slash. Every error answer is an `ErrorBody`.
 */
export function createServer(parts: ServerParts): FastifyInstance {
  const limits = { ...DEFAULT_HTTP_LIMITS, ...parts.limits };
  const { log = () => undefined } = parts;
  const { metrics = new ServiceMetrics(), drain = new Drain() } = parts;
  const routeParts: RouteParts = {
    clock: () => parts.store.clock.now(),
    operatorEntity: null,
    keepPolicy: null,
    notices: () => [],
    allowedHosts: [],
    allowedOrigins: ['localhost'],
    hasReasoningContent: false,
    maxLogprobs: DEFAULT_MAX_LOGPROBS,
    logprobsMode: 'raw',
    keepsChoiceRecords: true,
    keepsAnswers: true,
    trainingDataDirectory: null,
    hub: null,
    tracking: null,
    tracing: null,
    metricsAccess: 'open',
    dashboard: null,
    guides: null,
    machine: { problem: null },
    ...parts,
    inference: measuredInference(parts.inference, metrics.inference),
    baseModels: new BaseModels(
      () => parts.inference.models,
      (id) => parts.inference.absence?.(id) ?? (id === null ? null : (parts.hub?.absence(id) ?? null)),
    ),
    log,
    limits,
    intake: new BodyIntake({
      windowBytes: Math.round((limits.minBodyBytesPerSecond * limits.bodyWindowMs) / 1000),
      windowMs: limits.bodyWindowMs,
      timeoutMs: limits.bodyTimeoutMs,
      maxWaitMs: limits.maxBodyWaitMs,
    }),
    bodyBudgets: parts.bodyBudgets ?? {
      requests: new ByteBudget(limits.chatBodyBytes * BODIES_AT_A_TIME),
      uploads: new ByteBudget(limits.previewBodyBytes),
    },
    answerMemory: parts.answerMemory ?? new AnswerMemory(),
    versionUse: new VersionUse(parts.store, log),
    resolvedModels: new LastKnown({ lifetimeMs: parts.outageMs ?? 0, isAway: () => parts.store.database.isAway() }),
    drain,
    health: new ServiceHealth({ ...parts, drain }),
    background: new BackgroundAnswers({ store: parts.store, log }),
  };
  const app = Fastify({
    bodyLimit: limits.chatBodyBytes,
    // Bodies have their own time limit. This one ends unread data, such as the rest of a refused body.
    requestTimeout: limits.bodyTimeoutMs + limits.maxBodyWaitMs + limits.bodyWindowMs,
    clientErrorHandler: answerClientFault,
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PATH_PART_CHARACTERS },
    // Paths that are not valid URLs never reach a route.
    frameworkErrors: (error, request, reply) => {
      reply.header('x-request-id', request.id);
      if (speaksAnthropic(request)) reply.header('request-id', request.id);
      // Hooks do not run in this case.
      drainAfter(reply.raw as ServerResponse);
      sendError(error, request as FastifyRequest, reply as FastifyReply, routeParts);
    },
    genReqId: ({ headers }) => {
      const id = headers['x-request-id'];
      return typeof id === 'string' && REQUEST_ID.test(id) ? id : randomUUID().replaceAll('-', '');
    },
  });
  answerEarly(app);
  trackRequestEnds(app);
  closeWhileDraining(app, drain);
  endStalledReaders(app, {
    timeoutMs: limits.readerTimeoutMs,
    onStalled: (requestId) => {
      metrics.countStalledReader();
      log(
        `request ${requestId} ended: its client read nothing of the response for ${limits.readerTimeoutMs / 1000} s (--reader-timeout-ms)`,
        { level: 'warn', requestId },
      );
    },
  });
  traceRequests(app, routeParts.tracing);
  app.decorateRequest('baseModel', null);
  app.setValidatorCompiler(compileValidator);
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply, routeParts));
  // Hooks that do not wait are not async: each promise would cost every request some turns of the queue.
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    // Clients of that API show it in their errors.
    if (speaksAnthropic(request)) reply.header('request-id', request.id);
    done();
  });
  refuseWhileClosing(app);
  refuseForeignHosts(app, routeParts.allowedHosts);
  shareAcrossOrigins(app, routeParts.allowedOrigins);
  app.addHook('onRequest', (request, _reply, done) => {
    refuseEncodedBodies(request);
    done();
  });
  refuseOtherQueries(app);
  compressAnswers(app);
  refuseRouteMisses(app);
  requireKeys(app, parts.store, new KeyWatch(parts.store, routeParts.clock));
  // Before the body is read: in a burst, even reading refused bodies takes time from accepted ones.
  app.addHook('onRequest', ({ routeOptions }, _reply, done) => {
    if (routeOptions.config.samples) parts.inference.checkCapacity();
    done();
  });
  limitKeys(app, new KeyLimiter({ store: parts.store, onRefusal: (limit) => metrics.countRefusal(limit), log }));
  acceptJsonBodies(app, routeParts);
  reportIgnoredFields(app, (handler, numFields) => metrics.countIgnoredFields(handler, numFields));

  metricsRoutes(app, routeParts, metrics);
  healthRoutes(app, routeParts);
  modelRoutes(app, routeParts);
  chatCompletionRoutes(app, routeParts);
  completionRoutes(app, routeParts);
  messageRoutes(app, routeParts);
  responseRoutes(app, routeParts);
  keptResponseRoutes(app, routeParts);
  conversationRoutes(app, routeParts);
  conversationItemRoutes(app, routeParts);
  tokenGenerationRoutes(app, routeParts);
  loraAdapterRoutes(app, routeParts);
  tokenizeRoutes(app, routeParts);
  previewModelRoutes(app, routeParts);
  baseModelRoutes(app, routeParts);
  modelDetailsRoutes(app, routeParts);
  seriesRoutes(app, routeParts);
  checkpointRoutes(app, routeParts);
  exportRoutes(app, routeParts);
  adapterRoutes(app, routeParts);
  const bodies = new TrajectoryBodyReader(routeParts);
  app.addHook('onClose', () => bodies.close());
  // A drain also gives background answers their time.
  app.addHook('onClose', () => routeParts.background.close());
  trajectoryLogRoutes(app, routeParts, bodies);
  const watch = new FeedWatch(parts.store.feed);
  // Streams end before the server waits for the answers in flight.
  app.addHook('preClose', async () => watch.close());
  trainingJobRoutes(app, routeParts, bodies, watch);
  artifactRoutes(app, routeParts);
  sftJobRoutes(app, routeParts);
  trainingJobControlRoutes(app, routeParts);
  trainingJobRetryRoutes(app, routeParts);
  trainingQueueRoutes(app, routeParts);
  trajectoryRoutes(app, routeParts);
  serviceEventRoutes(app, routeParts, watch);
  usageRoutes(app, routeParts);
  hostRoutes(app, routeParts);
  keyRoutes(app, routeParts);
  referenceRoutes(app, routeParts);
  guideRoutes(app, routeParts);
  sessionRoutes(app, routeParts);
  homeRoutes(app, routeParts);
  dashboardRoutes(app, routeParts);
  return app;
}

/** Refuses compressed bodies: they would be parsed as plain, and unpacking small ones could take any memory. */
function refuseEncodedBodies({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') return;
  throw new RequestError(
    'request.unsupported_media_type',
    `Compressed request bodies are not supported (Content-Encoding: ${encoding})`,
  );
}

function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { log, baseModels }: RouteParts,
): FastifyReply {
  const translated = error instanceof Error ? translate(error as FastifyError, request) : error;
  const fault = isOf(translated, 'context_length_exceeded')
    ? asContextExceeded(translated as Error, (request.baseModel ?? baseModels.default).contextLength)
    : translated;
  const { scope, fieldNames } = request.routeOptions.config;
  const answer = toErrorAnswer(fault, scope, fieldNames, (name) => partOf(name, request));
  recordFault(request, answer.body.error.code);
  // A connection that stays open takes the rest of a body with a known length.
  if (isOf(error, 'request.body_too_large') && request.headers['content-length'] !== undefined)
    reply.removeHeader('connection');
  // A client that left is not a failure, and reads no answer.
  if (answer.isInternal && !reply.raw.destroyed)
    log(
      `request ${request.id} (${request.method} ${request.routeOptions.url ?? 'unknown'}) failed: ${fault instanceof Error ? (fault.stack ?? fault.message) : String(fault)}`,
      { level: 'error', requestId: request.id, traceId: traceIdOf(request) },
    );
  return reply
    .code(answer.status)
    .headers(answer.headers)
    .type('application/json; charset=utf-8')
    .send(errorFormOf(request)(answer.body, request.id, answer.status));
}

/**
 * Form of a request's errors: its route's. For routes of several APIs, and for requests without a route, the
 * client's.
 */
function errorFormOf(request: FastifyRequest): ErrorForm {
  const { scope, toErrorForm = scope === undefined ? 'of-client' : null } = request.routeOptions.config;
  if (toErrorForm !== null && toErrorForm !== 'of-client') return toErrorForm;
  return toErrorForm !== null && speaksAnthropic(request) ? toMessagesError : (body) => body;
}

function partOf(name: string, { params, query, headers }: FastifyRequest): ValidatedPart {
  const has = (part: unknown): boolean => typeof part === 'object' && part !== null && Object.hasOwn(part, name);
  if (has(params)) return 'path';
  if (has(query)) return 'query';
  // Header names are capitalised, fields are in lower case.
  return name !== name.toLowerCase() && Object.hasOwn(headers, name.toLowerCase()) ? 'header' : 'body';
}

function isOf(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

const PARTS: Readonly<Record<string, ValidatedPart>> = {
  body: 'body',
  querystring: 'query',
  params: 'path',
  headers: 'header',
};

/** Converts Fastify's refusals to ours; other errors stay unchanged. */
function translate(error: FastifyError, request: FastifyRequest): Error {
  if (error.validation) {
    const part = PARTS[error.validationContext ?? 'body'] ?? 'body';
    const data = { body: request.body, query: request.query, path: request.params, header: request.headers }[part];
    return RequestError.invalid(
      toValidationItems(error.validation as Parameters<typeof toValidationItems>[0], part, data),
    );
  }
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new RequestError(
        'request.unsupported_media_type',
        `The Content-Type must be ${(request.routeOptions.config.mediaTypes ?? ['application/json']).join(', ')}, got ${request.headers['content-type'] ?? 'none'}`,
        { cause: error },
      );
    default:
      // Malformed paths, lengths and headers: the framework's messages are fit for clients.
      if (!error.code?.startsWith('FST_') || error.statusCode !== 400) return error;
      return new RequestError('request.malformed', error.message, {
        cause: error,
        items: [{ loc: [error.code === 'FST_ERR_BAD_URL' ? 'path' : 'header'], msg: error.message, type: 'malformed' }],
      });
  }
}
