import type { FastifyInstance, FastifyRequest } from 'fastify';

import { RequestError } from './request-error.ts';

/**
 * Answers requests that match no route, before their body is read: 404, or 405 with `Allow` if the path
 * exists with other methods. Call it before the routes are registered.
 */
export function refuseRouteMisses(app: FastifyInstance): void {
  const methodsByPattern = new Map<string, { pattern: RegExp; methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const known = methodsByPattern.get(url) ?? { pattern: patternOf(url), methods: new Set<string>() };
    for (const name of [method].flat()) known.methods.add(name);
    methodsByPattern.set(url, known);
  });
  const refuse = (request: FastifyRequest): never => {
    const path = request.url.split('?')[0] ?? '';
    const methodsOf = (candidate: string) =>
      [...methodsByPattern.values()]
        .filter(({ pattern }) => pattern.test(candidate))
        .flatMap((known) => [...known.methods]);
    const methods = methodsOf(path);
    if (methods.length === 0) {
      const meant = namesakesOf(path).find((candidate) => methodsOf(candidate).length > 0);
      throw new RequestError('request.not_found', meant === undefined ? missOf(path) : namesakeOf(path, meant));
    }
    throw new RequestError('request.method_not_allowed', 'Method Not Allowed', {
      headers: { allow: methods.toSorted().join(', ') },
    });
  };
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.is404) refuse(request);
    done();
  });
  app.setNotFoundHandler(refuse);
}

const INFERENCE_PATHS =
  '/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /inference/v1/generate, /v1/tokenize, /v1/detokenize, /v1/models';

/** Routes of other OpenAI-compatible servers, with the reason why this service lacks them. */
const ABSENT: readonly [RegExp, string][] = [
  [/^(\/v1)?\/(embeddings|embed)$|^\/v2\/embed$/, 'the served models generate text, not embeddings'],
  [/^(\/v1|\/v2)?\/(pooling|classify|score|rerank)$/, 'the served models generate text and do not score it'],
  [/^\/v1\/moderations$/, 'no moderation model is served'],
  [/^\/v1\/audio\/|^\/v1\/realtime/, 'the served models support only text, not audio'],
  [/^\/v1\/(images|videos)(\/|$)/, 'the served models support only text, not images'],
  [/^(\/v1)?\/chat\/completions\/tokens$/, 'send prompts of token ids to POST /inference/v1/generate'],
  [/^\/v1\/chat\/completions\/(?!render|batch)./, 'answers are not kept'],
  [/^\/v1\/(assistants|threads|vector_stores|containers|evals)(\/|$)/, 'conversations are not kept here'],
  [/^\/v1\/messages\/batches(\/|$)|^\/v1\/batches(\/|$)/, 'there are no batches: send requests in parallel'],
  [
    /^\/v1\/(fine_tuning|files|uploads)(\/|$)/,
    'use /v1/preview/training-jobs and /v1/preview/sft-training-jobs for training, and /v1/preview/artifacts for its data',
  ],
  [
    /^\/(sleep|wake_up|is_sleeping|pause|resume|is_paused|reset_prefix_cache|collective_rpc)$/,
    'the service manages its own memory',
  ],
];

/**
 * Possibly intended paths: clients differ in whether their base URL includes `/v1`, and in who adds the
 * slash.
 */
function namesakesOf(path: string): string[] {
  const plain = path.replaceAll(/\/{2,}/g, '/');
  return [plain, plain.replace(/^(\/v1)+(?=\/v1\/)/, ''), plain.replace(/^(\/v1)+(?=\/)/, ''), `/v1${plain}`];
}

function namesakeOf(path: string, meant: string): string {
  return `There is no ${path} here, but ${meant}: check the base URL of the client, which requested the path`;
}

function missOf(path: string): string {
  const route = path.replace(/\/+$/, '');
  const reason = ABSENT.find(([pattern]) => pattern.test(route))?.[1];
  return reason === undefined ? 'Not Found' : `There is no ${route} here: ${reason}. Available are ${INFERENCE_PATHS}`;
}

/** `/v1/x/:id` → a path with one segment there, `/v1/x/*` with any number; a trailing slash is ignored. */
function patternOf(url: string): RegExp {
  const segments = url
    .split('/')
    .map((segment) =>
      segment === '*' ? '.+' : segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    );
  return new RegExp(`^${segments.join('/')}/?$`);
}
