import type { SamplingServer } from './sampling-server.ts';

/** As in the pool of vLLM servers: none gets more than a quarter above the mean. */
const LOAD_FACTOR = 1.25;

/**
 * Server for a key: always the same one, unless it has too much; then the next one. All have equal shares of
 * the circle here.
 */
export function chooseServer(
  servers: readonly SamplingServer[],
  key: string,
  numMore: number,
  numSequences: number,
): SamplingServer {
  const limit = Math.ceil((LOAD_FACTOR * (numSequences + numMore)) / servers.length);
  const start = hashOf(key) % servers.length;
  for (let offset = 0; offset < servers.length; offset++) {
    const server = servers[(start + offset) % servers.length]!;
    if (server.numSequences + numMore <= limit) return server;
  }
  return servers.reduce((least, server) => (server.numSequences < least.numSequences ? server : least));
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return hash;
}
