import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ErrorBody, FieldNames } from '@trainyard/protocol';
import { type Caller, isDamagedSecret, limitsIfAny, type Store } from '@trainyard/store';

import { isForwarded } from './forwarded.ts';
import type { KeyWatch } from './key-watch.ts';
import { reasonOfEnd, UNKNOWN_KEY } from './refused-key.ts';
import { refuseOtherPages, sessionTokenOf } from './session-cookie.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import type { RouteScope } from '../../seams/faults/route-scope.ts';

export type ErrorForm = (body: ErrorBody, requestId: string, status: number) => object;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Required for every route; registering a route without it throws. */
    scope?: RouteScope;
    /** Replaces `scope` for requests that came through a proxy. */
    forwardedScope?: RouteScope;
    /** The route samples: at the limit of requests in flight it is refused before its body is read. */
    samples?: boolean;
    /** Schema of the body, if the route checks it itself. */
    body?: object;
    /** Accepted media types in addition to JSON. */
    mediaTypes?: readonly string[];
    /** The form's names for the fields of a chat or a text completion. Default: unchanged. */
    fieldNames?: FieldNames;
    /** Error form of the route's clients; `of-client`: depends on the client's headers. Default: unchanged. */
    toErrorForm?: ErrorForm | 'of-client';
  }
  interface FastifyRequest {
    /** Set on every route that is not public. */
    caller: Caller | null;
  }
}

/** Header with the unavailable part, in answers from cached data. */
const DEGRADED_HEADER = 'x-trainyard-degraded';

/**
 * Bearer-key authentication for every route registered afterwards; without a key the cookie of a signed-in
 * browser counts, for pages of the service itself. Runs before the body is read.
 * A missing, malformed or unknown key → 401; a key without the route's scope → 403. The scope `admin`
 * includes the others.
 */
export function requireKeys(app: FastifyInstance, store: Store, watch: KeyWatch): void {
  app.decorateRequest('caller', null);
  app.addHook('onRoute', (route) => {
    if (route.config?.scope === undefined)
      throw new Error(`the route ${String(route.method)} ${route.url} declares no scope`);
  });
  app.addHook('onRequest', async (request, reply) => {
    const { scope: own, forwardedScope } = request.routeOptions.config;
    const scope = forwardedScope !== undefined && isForwarded(request) ? forwardedScope : own;
    // No scope: no route matches, and the answer will be 404 or 405.
    if (scope === undefined || scope === 'public') return;
    const token = sessionTokenIfAny(request);
    const signedIn = token === null ? null : await sessionCaller(request, token, store);
    const caller = signedIn?.caller ?? (await authenticate(request, store));
    if (scope !== 'any' && !caller.scopes.includes(scope) && !caller.scopes.includes('admin')) {
      throw new RequestError(
        'request.forbidden',
        `This key may not use this route: it needs the scope \`${scope}\` and has ${caller.scopes.join(', ') || 'none'}`,
      );
    }
    request.caller = caller;
    store.keys.recordUse(caller.keyId);
    if (caller.isRemembered === true) reply.header(DEGRADED_HEADER, 'database');
    watch.add(signedIn === null ? { keyId: caller.keyId } : { session: signedIn.session }, request);
  });
}

/** Session token of a browser. Null without one, and if a key was sent, which takes precedence. */
function sessionTokenIfAny(request: FastifyRequest): string | null {
  const { authorization, 'x-api-key': named } = request.headers;
  return authorization === undefined && named === undefined ? sessionTokenOf(request) : null;
}

/** Key of a signed-in browser, and its session. Null if the session has ended. */
async function sessionCaller(
  request: FastifyRequest,
  token: string,
  store: Store,
): Promise<{ readonly caller: Caller; readonly session: string } | null> {
  refuseOtherPages(request);
  const key = (await store.signIns.findSession(token))?.key;
  if (key === undefined) return null;
  const { id: keyId, entityId, entity, scopes, limits } = key;
  return { caller: { keyId, entityId, entity, scopes, limits: limitsIfAny(limits) }, session: token };
}

const BEARER = /^bearer +(\S+)$/i;

async function authenticate(request: FastifyRequest, store: Store): Promise<Caller> {
  const { authorization, 'x-api-key': named } = request.headers;
  // Clients of the Anthropic API send the same key in their own header.
  const secret = authorization === undefined ? [named].flat()[0]?.trim() : BEARER.exec(authorization.trim())?.[1];
  const caller = secret === undefined ? null : await store.keys.verify(secret);
  if (caller) return caller;
  throw new RequestError('request.unauthenticated', await refusalOf(secret, authorization ?? named, store), {
    headers: { 'www-authenticate': 'Bearer' },
  });
}

async function refusalOf(
  secret: string | undefined,
  sent: string | string[] | undefined,
  store: Store,
): Promise<string> {
  if (sent === undefined) return 'Missing API key: send the header `Authorization: Bearer KEY` or `x-api-key: KEY`';
  if (secret !== undefined && isDamagedSecret(secret))
    return 'The API key is not valid: its checksum is wrong, so it was mistyped or truncated';
  // While the database is away, remembered keys are refused too, without a reason.
  const key = secret === undefined ? null : await store.keys.getBySecret(secret).catch(() => undefined);
  if (key === undefined) return 'The API key is not valid: it is unknown, revoked or expired';
  return key === null ? UNKNOWN_KEY : reasonOfEnd(key);
}

export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new Error('a public route has no caller');
  return request.caller;
}

/** Longest recorded project name; longer ones are truncated. */
const MAX_PROJECT_CHARACTERS = 256;

/**
 * Project for usage records: `Compat-Project` or `OpenAI-Project`, usually "team/project". Null if neither
 * was sent.
 */
export function projectOf(request: FastifyRequest): string | null {
  const header = request.headers['compat-project'] ?? request.headers['openai-project'];
  const project = (Array.isArray(header) ? header[0] : header)?.trim().slice(0, MAX_PROJECT_CHARACTERS);
  return project || null;
}
