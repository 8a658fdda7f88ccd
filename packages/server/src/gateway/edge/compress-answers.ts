import { gzip } from 'node:zlib';

import type { FastifyInstance } from 'fastify';

/** Smaller answers fit a few packets anyway. */
const LEAST_BYTES = 4096;
/** Level of zlib: its default; 4 took half the time for answers that are 6 % larger. */
const LEVEL = 6;
const COMPRESSIBLE = /^(?:application\/json|text\/html)\b/;

/**
 * Compresses large JSON and HTML answers to GET requests for clients that accept gzip. A list of models becomes
 * a tenth; streams and answers to other methods stay as they are.
 */
export function compressAnswers(app: FastifyInstance): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    const type = String(reply.getHeader('content-type') ?? '');
    if (request.method !== 'GET' || typeof payload !== 'string' || payload.length < LEAST_BYTES) return done();
    if (!COMPRESSIBLE.test(type) || reply.hasHeader('content-encoding')) return done();
    reply.header('vary', [reply.getHeader('vary'), 'accept-encoding'].filter(Boolean).join(', '));
    if (!accepts(request.headers['accept-encoding'], 'gzip')) return done();
    gzip(payload, { level: LEVEL }, (error, compressed) => {
      if (error !== null) return done(error);
      reply.header('content-encoding', 'gzip').removeHeader('content-length');
      done(null, compressed);
    });
  });
}

/** True for a header that names the encoding, or anything, with a quality above 0. */
export function accepts(header: string | string[] | undefined, encoding: 'gzip' | 'br'): boolean {
  const accepted = [header ?? ''].flat().join(',').toLowerCase().split(',');
  const qualityOf = (name: string): number | null => {
    const found = accepted.find((one) => one.split(';')[0]!.trim() === name);
    if (found === undefined) return null;
    const quality = /;\s*q=([\d.]+)/.exec(found)?.[1];
    return quality === undefined ? 1 : Number(quality);
  };
  return (qualityOf(encoding) ?? qualityOf('*') ?? 0) > 0;
}
