import { CreateSessionRequestSchema, SessionLinkSchema, SessionSchema } from '../../service/session.ts';
import { BODY, EVERY_ROUTE, KEY, type Operation, STORE } from './operation-parts.ts';

/** Sessions of browsers. */
export const SESSION_OPERATIONS: readonly Operation[] = [
  {
    id: 'retrieveSession',
    method: 'get',
    paths: ['/v1/session'],
    scope: 'public',
    tag: 'Service',
    summary: 'Read the session of the browser',
    description: 'For the dashboard. The cookie identifies the session; without it, no key is signed in.',
    answer: SessionSchema,
    faults: [...STORE, ...EVERY_ROUTE, 'request.origin_not_allowed'],
  },
  {
    id: 'createSession',
    method: 'post',
    paths: ['/v1/session'],
    scope: 'public',
    tag: 'Service',
    summary: 'Sign a browser in',
    description:
      'With a key, or with the code of a sign-in link. For pages of the service itself: the answer sets a cookie that replaces the key in their requests, and ends with the key, when the browser signs out, or after 30 days.',
    body: CreateSessionRequestSchema,
    answer: SessionSchema,
    faults: [...STORE, ...EVERY_ROUTE, ...BODY, 'request.unauthenticated', 'request.origin_not_allowed'],
  },
  {
    id: 'deleteSession',
    method: 'delete',
    paths: ['/v1/session'],
    scope: 'public',
    tag: 'Service',
    summary: 'Sign the browser out',
    description: 'The cookie becomes invalid. Signing out twice has no effect.',
    answer: SessionSchema,
    faults: [...EVERY_ROUTE, 'request.origin_not_allowed'],
  },
  {
    id: 'createSessionLink',
    method: 'post',
    paths: ['/v1/session-links'],
    scope: 'any',
    tag: 'Service',
    summary: 'Create a sign-in link for a browser',
    description: 'With the rights of the key that asks. It works once, for 15 minutes.',
    answer: SessionLinkSchema,
    faults: KEY,
  },
];
