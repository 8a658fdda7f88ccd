import type { FastifyInstance, FastifyRequest } from 'fastify';

import { RequestError } from './request-error.ts';

/**
 * Answers requests that match no route, before their body is read: 404, or 405 with `Allow` when the path exists with other methods.
 * Call it before the routes are registered.
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

/** Where one can ask for replies and tokens. */
const INFERENCE_PATHS =
  '/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /inference/v1/generate, /v1/tokenize, /v1/detokenize, /v1/models';

/** Routes of other OpenAI-compatible servers, and why they are absent here. */
const ABSENT: readonly [RegExp, string][] = [
  [/^(\/v1)?\/(embeddings|embed)$|^\/v2\/embed$/, 'the models served here write text and make no embeddings'],
  [/^(\/v1|\/v2)?\/(pooling|classify|score|rerank)$/, 'the models served here write text and score none'],
  [/^\/v1\/moderations$/, 'no model here judges texts'],
  [/^\/v1\/audio\/|^\/v1\/realtime/, 'the models served here read and write text, no sound'],
  [/^\/v1\/(images|videos)(\/|$)/, 'the models served here read and write text, no images'],
  [/^(\/v1)?\/chat\/completions\/tokens$/, 'prompts of token ids are answered at POST /inference/v1/generate'],
  [/^\/v1\/chat\/completions\/(?!render|batch)./, 'answers are not kept'],
  [/^\/v1\/(assistants|threads|vector_stores|containers|evals)(\/|$)/, 'conversations are not kept here'],
  [/^\/v1\/messages\/batches(\/|$)|^\/v1\/batches(\/|$)/, 'requests are answered at once: send them side by side'],
  [
    /^\/v1\/(fine_tuning|files|uploads)(\/|$)/,
    'training is at /v1/preview/training-jobs and /v1/preview/sft-training-jobs, its data at /v1/preview/artifacts',
  ],
  [
    /^\/(sleep|wake_up|is_sleeping|pause|resume|is_paused|reset_prefix_cache|collective_rpc)$/,
    'the service keeps its own memory',
  ],
];

/** Paths that may have been meant: clients differ in whether their base URL has the `/v1`, and in who brings the slash. */
function namesakesOf(path: string): string[] {
  const plain = path.replaceAll(/\/{2,}/g, '/');
  return [plain, plain.replace(/^(\/v1)+(?=\/v1\/)/, ''), plain.replace(/^(\/v1)+(?=\/)/, ''), `/v1${plain}`];
}

function namesakeOf(path: string, meant: string): string {
  return `There is no ${path} here, but ${meant}: look at the base URL of the client, which asked for the path`;
}

/** Clients of other servers read what there is instead. */
function missOf(path: string): string {
  const route = path.replace(/\/+$/, '');
  const reason = ABSENT.find(([pattern]) => pattern.test(route))?.[1];
  return reason === undefined ? 'Not Found' : `There is no ${route} here: ${reason}. There are ${INFERENCE_PATHS}`;
}

/** `/v1/x/:id` → a path with one segment there, `/v1/x/*` with any number; a trailing slash is the same path. */
function patternOf(url: string): RegExp {
  const segments = url
    .split('/')
    .map((segment) =>
      segment === '*' ? '.+' : segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    );
  return new RegExp(`^${segments.join('/')}/?$`);
}
