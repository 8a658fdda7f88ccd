import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  type CreateSessionRequest,
  CreateSessionRequestSchema,
  type SessionLinkObject,
  type SessionObject,
} from '@trainyard/protocol';
import type { Session } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { reasonOfEnd, UNKNOWN_KEY } from '../../edge/refused-key.ts';
import { refuseOtherPages, sessionCookie, sessionTokenOf } from '../../edge/session-cookie.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { toKeyObject } from '../../../seams/contract/key-object.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

const NOBODY: SessionObject = { object: 'session', key: null, expires_at: null };

/** Page that reads a link's code: the part after `#` is sent to no server and is in no log. */
const LINK_PATH = '/sign-in#';

/**
 * GET, POST and DELETE /v1/session: the page's current user, sign in, sign out. POST /v1/session-links: a
 * link that signs in once, with the rights of the requesting key.
 */
export function sessionRoutes(app: FastifyInstance, { store, clock }: RouteParts): void {
  const config = { scope: 'public' } as const;

  app.get('/v1/session', { config }, async (request, reply): Promise<SessionObject> => {
    noStore(reply);
    const token = sessionTokenOf(request);
    if (token === null) return NOBODY;
    refuseOtherPages(request);
    return toSessionObject(await store.signIns.findSession(token));
  });

  app.post<{ Body: CreateSessionRequest }>(
    '/v1/session',
    { config, schema: { body: CreateSessionRequestSchema } },
    async (request, reply): Promise<SessionObject> => {
      refuseOtherPages(request);
      noStore(reply);
      const keyId = await keyIdOf(request);
      const before = sessionTokenOf(request);
      if (before !== null) await store.signIns.closeSession(before);
      const { secret, expiresAt } = await store.signIns.openSession(keyId);
      const session = await store.signIns.findSession(secret);
      if (session === null) throw refused('The key was revoked or has expired');
      reply.header('set-cookie', sessionCookie(request, secret, Math.ceil((expiresAt - clock()) / 1000)));
      return toSessionObject(session);
    },
  );

  app.delete('/v1/session', { config }, async (request, reply): Promise<SessionObject> => {
    const token = sessionTokenOf(request);
    if (token !== null) {
      refuseOtherPages(request);
      await store.signIns.closeSession(token);
      reply.header('set-cookie', sessionCookie(request, '', 0));
    }
    noStore(reply);
    return NOBODY;
  });

  app.post('/v1/session-links', { config: { scope: 'any' } }, async (request, reply): Promise<SessionLinkObject> => {
    noStore(reply);
    const { secret, expiresAt } = await store.signIns.createLink(callerOf(request).keyId);
    return { object: 'session_link', path: linkPath(secret), expires_at: Math.floor(expiresAt / 1000) };
  });

  async function keyIdOf(request: FastifyRequest<{ Body: CreateSessionRequest }>): Promise<string> {
    const { key, code } = request.body;
    if ((key === undefined) === (code === undefined)) {
      const msg = 'Input should have either `key` or `code`';
      throw RequestError.invalid([{ loc: ['body'], msg, type: 'value_error' }]);
    }
    if (key !== undefined) {
      const caller = await store.keys.verify(key.trim());
      if (caller !== null) return caller.keyId;
      const ended = await store.keys.getBySecret(key.trim());
      throw refused(ended === null ? UNKNOWN_KEY : reasonOfEnd(ended));
    }
    const keyId = await store.signIns.redeemLink(code!);
    if (keyId !== null) return keyId;
    throw refused(
      'The sign-in link was already used, or is older than 15 minutes. Create another one with "trainyard open", or use a key',
    );
  }
}

export function linkPath(code: string): string {
  return LINK_PATH + code;
}

function toSessionObject(session: Session | null): SessionObject {
  if (session === null) return NOBODY;
  return { object: 'session', key: toKeyObject(session.key), expires_at: Math.floor(session.expiresAt / 1000) };
}

function refused(message: string): RequestError {
  return new RequestError('request.unauthenticated', message);
}

function noStore(reply: FastifyReply): void {
  reply.header('cache-control', 'no-store');
}
