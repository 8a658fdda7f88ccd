import { randomBytes } from 'node:crypto';

import type { FastifyReply } from 'fastify';

import type { DashboardAsset, DashboardFiles } from './dashboard-files.ts';

/** The names of assets change with their content, so a browser asks for each once. */
const FOR_EVER = 'public, max-age=31536000, immutable';

/**
 * The page of the dashboard. Scripts and styles are files of the service and nothing else; style elements that a dialog makes while it is open carry the
 * nonce of this answer.
 */
export function sendDashboard(reply: FastifyReply, { page }: DashboardFiles): FastifyReply {
  const nonce = randomBytes(16).toString('base64');
  const policy = [
    `default-src 'none'`,
    `script-src 'self'`,
    `style-src 'self' 'nonce-${nonce}'`,
    `img-src 'self' data:`,
    `connect-src 'self'`,
    `base-uri 'none'`,
    `form-action 'none'`,
    `frame-ancestors 'none'`,
  ];
  return reply
    .type('text/html; charset=utf-8')
    .header('content-security-policy', policy.join('; '))
    .header('x-content-type-options', 'nosniff')
    .header('referrer-policy', 'no-referrer')
    .header('cross-origin-opener-policy', 'same-origin')
    .header('cache-control', 'no-store')
    .send(page.replace('NONCE', nonce));
}

export function sendAsset(reply: FastifyReply, { mediaType, content, gzipped }: DashboardAsset): FastifyReply {
  const acceptsGzip = /\bgzip\b/.test(reply.request.headers['accept-encoding']?.toString() ?? '');
  if (acceptsGzip) reply.header('content-encoding', 'gzip');
  return reply
    .type(mediaType)
    .header('vary', 'accept-encoding')
    .header('x-content-type-options', 'nosniff')
    .header('cache-control', FOR_EVER)
    .send(acceptsGzip ? gzipped : content);
}
