import type { FastifyRequest } from 'fastify';

import { RequestError } from '../../seams/faults/request-error.ts';

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS'];
const PORT = /:(\d+)$/;

/** Browsers send cookies to all ports of a name: two services on one machine must not sign each other out. */
function cookieName({ headers }: FastifyRequest): string {
  const port = PORT.exec(headers.host ?? '')?.[1];
  return port === undefined ? 'trainyard_session' : `trainyard_session_${port}`;
}

/** Session secret from the browser's cookie; null if there is none. */
export function sessionTokenOf(request: FastifyRequest): string | null {
  const name = cookieName(request);
  for (const pair of (request.headers.cookie ?? '').split(';')) {
    const [key, value] = pair.trim().split('=', 2);
    if (key === name && value !== undefined && value !== '') return value;
  }
  return null;
}

/**
 * `Set-Cookie` that starts a session, or ends it with an empty token. Scripts cannot read it, and requests of
 * other sites do not include it.
 */
export function sessionCookie(request: FastifyRequest, token: string, maxAgeSeconds: number): string {
  const parts = [
    `${cookieName(request)}=${token}`,
    'Path=/',
    `Max-Age=${maxAgeSeconds}`,
    'HttpOnly',
    'SameSite=Strict',
    // The page's origin shows that a proxy adds TLS.
    ...(request.headers.origin?.startsWith('https:') === true ? ['Secure'] : []),
  ];
  return parts.join('; ');
}

/**
 * Refuses requests from pages of another origin that carry this origin's cookie: for SameSite every port of a
 * name is the same site. Browsers identify the page by `Sec-Fetch-Site`, and by `Origin` for insecure
 * addresses.
 * @throws {RequestError} `request.origin_not_allowed`
 */
export function refuseOtherPages({ method, headers }: FastifyRequest): void {
  const site = headers['sec-fetch-site'];
  const isSafe = SAFE_METHODS.includes(method);
  const isOwn =
    site === undefined
      ? headers.origin === undefined
        ? isSafe
        : isOriginOf(headers.origin, headers.host)
      : site === 'same-origin' || (site === 'none' && isSafe);
  if (isOwn) return;
  throw new RequestError(
    'request.origin_not_allowed',
    `Only pages of the service itself may use its sign-in; got the origin ${JSON.stringify((headers.origin ?? 'none').slice(0, 100))}. Other clients must send a key`,
    { param: 'Origin' },
  );
}

function isOriginOf(origin: string, host: string | undefined): boolean {
  const authority = /^https?:\/\/([^/]+)$/i.exec(origin)?.[1];
  return authority !== undefined && authority.toLowerCase() === host?.toLowerCase();
}
