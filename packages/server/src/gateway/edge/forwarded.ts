import type { FastifyRequest } from 'fastify';

/** Headers of proxies, by RFC 7239, RFC 9110 and the conventions of proxies and content networks. */
const PROXY_HEADERS = [
  'forwarded',
  'via',
  'cdn-loop',
  'x-forwarded(?:-.+)?',
  'x-original-.+',
  'x-real-ip',
  'x-(?:client|cluster-client|proxyuser|remote|originating)-(?:ip|addr)',
  'x-envoy-.+',
  'x-azure-.+',
  'x-amz-cf-id',
  'x-amzn-trace-id',
  'x-cloud-trace-context',
  '(?:true-client|fastly-client|fly-client|client|cf-connecting|do-connecting)-ip(?:v6)?',
  'cf-(?:ray|visitor|ipcountry)',
  'front-end-https',
  'proxy-.+',
];
const PROXY_HEADER = new RegExp(`^(?:${PROXY_HEADERS.join('|')})$`);

/**
 * True if a request came through a proxy: its sender may be anyone, even if the connection comes from this
 * machine.
 */
export function isForwarded({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return Object.keys(headers).some((name) => PROXY_HEADER.test(name));
}
