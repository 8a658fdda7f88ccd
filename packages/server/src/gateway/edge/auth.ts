import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ErrorBody, FieldNames } from '@trainyard/protocol';
import { type Caller, isDamagedSecret, limitsIfAny, type Store } from '@trainyard/store';

import { isForwarded } from './forwarded.ts';
import type { KeyWatch } from './key-watch.ts';
import { refuseOtherPages, sessionTokenOf } from './session-cookie.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import type { RouteScope } from '../../seams/faults/route-scope.ts';

/** An error in the form of an API. */
export type ErrorForm = (body: ErrorBody, requestId: string, status: number) => object;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Every route declares one; registering a route without it throws. */
    scope?: RouteScope;
    /** Replaces `scope` for requests that came through a proxy. */
    forwardedScope?: RouteScope;
    /** It samples: while as many requests are in flight as may be it is refused before its body is read. */
    samples?: boolean;
    /** The schema of the body, where the route itself checks it. */
    body?: object;
    /** Media types accepted besides JSON. */
    mediaTypes?: readonly string[];
    /** The form's own names for the fields of a chat, or of a text completion. Default: theirs. */
    fieldNames?: FieldNames;
    /** Errors as the clients of the route's form read them; `of-client`: as the headers of the client say. Default: as they are. */
    toErrorForm?: ErrorForm | 'of-client';
  }
  interface FastifyRequest {
    /** Set on every route that is not public. */
    caller: Caller | null;
  }
}

/** Names the part that is away, in answers that are made from what this process remembers of it. */
const DEGRADED_HEADER = 'x-trainyard-degraded';

/**
 * Bearer-key authentication for every route registered afterwards; without a key the cookie of a signed-in browser counts, for pages of the service
 * itself. Runs before the body is read.
 *
 * A missing, malformed or unknown key → 401; a key without the route's scope → 403. The scope `admin` includes the others.
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
    // No scope: the request matches no route and will be answered 404 or 405.
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
    if (caller.isRemembered === true) reply.header(DEGRADED_HEADER, 'database');
    watch.add(signedIn === null ? { keyId: caller.keyId } : { session: signedIn.session }, request);
  });
}

/** The session of a browser. Null when a key was sent, which comes first, and when there is none. */
function sessionTokenIfAny(request: FastifyRequest): string | null {
  const { authorization, 'x-api-key': named } = request.headers;
  return authorization === undefined && named === undefined ? sessionTokenOf(request) : null;
}

/** The key that a signed-in browser speaks for, and its session. Null when nobody is signed in by it any more. */
async function sessionCaller(
  request: FastifyRequest,
  token: string,
  store: Store,
): Promise<{ readonly caller: Caller; readonly session: string } | null> {
  refuseOtherPages(request);
  const key = (await store.findSession(token))?.key;
  if (key === undefined) return null;
  const { id: keyId, entityId, entity, scopes, limits } = key;
  return { caller: { keyId, entityId, entity, scopes, limits: limitsIfAny(limits) }, session: token };
}

const BEARER = /^bearer +(\S+)$/i;

async function authenticate(request: FastifyRequest, store: Store): Promise<Caller> {
  const { authorization, 'x-api-key': named } = request.headers;
  // Clients of the Anthropic API have a header of their own for the same key.
  const secret = authorization === undefined ? [named].flat()[0]?.trim() : BEARER.exec(authorization.trim())?.[1];
  const caller = secret === undefined ? null : await store.verifyKey(secret);
  if (caller) return caller;
  throw new RequestError('request.unauthenticated', refusalOf(secret, authorization ?? named), {
    headers: { 'www-authenticate': 'Bearer' },
  });
}

function refusalOf(secret: string | undefined, sent: string | string[] | undefined): string {
  if (sent === undefined) return 'Missing API key: send the header `Authorization: Bearer KEY` or `x-api-key: KEY`';
  if (secret !== undefined && isDamagedSecret(secret))
    return 'The API key is not valid: its checksum is wrong, so it was mistyped or truncated';
  return 'The API key is not valid: it is unknown, revoked or expired';
}

/** The caller of an authenticated route. */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new Error('a public route has no caller');
  return request.caller;
}

/** Longest project name that is recorded; longer ones are cut. */
const MAX_PROJECT_CHARACTERS = 256;

/** The project that usage is attributed to: `Compat-Project` or `OpenAI-Project`, usually "team/project". Null when neither was sent. */
export function projectOf(request: FastifyRequest): string | null {
  const header = request.headers['compat-project'] ?? request.headers['openai-project'];
  const project = (Array.isArray(header) ? header[0] : header)?.trim().slice(0, MAX_PROJECT_CHARACTERS);
  return project || null;
}
