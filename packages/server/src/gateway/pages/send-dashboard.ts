import { randomBytes } from 'node:crypto';

import type { FastifyReply } from 'fastify';

import { accepts } from '../edge/compress-answers.ts';
import type { DashboardAsset, DashboardFiles } from './dashboard-files.ts';

/** Names of assets change with their content, so a browser requests each once. */
const FOR_EVER = 'public, max-age=31536000, immutable';

/**
 * Sends the dashboard's page. It allows only scripts and styles from the service's files; style elements of
 * an open dialog carry the answer's nonce.
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

export function sendAsset(reply: FastifyReply, { mediaType, content, gzipped, brotli }: DashboardAsset): FastifyReply {
  const accepted = reply.request.headers['accept-encoding']?.toString() ?? '';
  // Browsers accept Brotli over HTTPS, and from this machine.
  const isBrotli = brotli !== null && accepts(accepted, 'br');
  const isGzip = !isBrotli && accepts(accepted, 'gzip');
  if (isBrotli || isGzip) reply.header('content-encoding', isBrotli ? 'br' : 'gzip');
  return reply
    .type(mediaType)
    .header('vary', 'accept-encoding')
    .header('x-content-type-options', 'nosniff')
    .header('cache-control', FOR_EVER)
    .send(isBrotli ? brotli : isGzip ? gzipped : content);
}
