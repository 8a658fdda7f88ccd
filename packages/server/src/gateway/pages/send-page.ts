import { createHash } from 'node:crypto';

import type { FastifyReply } from 'fastify';

/** A page and what it may do: nothing but its own scripts and styles runs, nothing is loaded from anywhere. */
export interface Page {
  readonly html: string;
  readonly securityPolicy: string;
}

/** The exact bytes between the tags, which browsers compute the digest of. */
const INLINE = /<(script|style)>([\s\S]*?)<\/\1>/g;

/** The policy is made from the page as it is sent, so the two cannot differ. */
export function makePage(html: string): Page {
  const digests = { script: [] as string[], style: [] as string[] };
  for (const [, element, content = ''] of html.matchAll(INLINE))
    digests[element as keyof typeof digests].push(`'sha256-${createHash('sha256').update(content).digest('base64')}'`);
  const directives = [
    `default-src 'none'`,
    `script-src ${digests.script.join(' ') || `'none'`}`,
    `style-src ${digests.style.join(' ') || `'none'`}`,
    'img-src data:',
    `base-uri 'none'`,
    `form-action 'none'`,
    `frame-ancestors 'none'`,
  ];
  return { html, securityPolicy: directives.join('; ') };
}

export function sendPage(reply: FastifyReply, page: Page): FastifyReply {
  return reply
    .type('text/html; charset=utf-8')
    .header('content-security-policy', page.securityPolicy)
    .header('x-content-type-options', 'nosniff')
    .header('referrer-policy', 'no-referrer')
    .send(page.html);
}
