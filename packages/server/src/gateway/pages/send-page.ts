import { createHash } from 'node:crypto';

import type { FastifyReply } from 'fastify';

/** A page with its policy: only its own scripts and styles run, and nothing from elsewhere is loaded. */
export interface Page {
  readonly html: string;
  readonly securityPolicy: string;
}

/** The exact bytes between the tags, of which browsers compute the digest. */
const INLINE = /<(script|style)>([\s\S]*?)<\/\1>/g;

/**
 * Derives the policy from the page itself, so the two cannot differ.
 * @param options.isDocument true for a page with pictures of the service and a form. Default false
 */
export function makePage(html: string, { isDocument = false } = {}): Page {
  const digests = { script: [] as string[], style: [] as string[] };
  for (const [, element, content = ''] of html.matchAll(INLINE))
    digests[element as keyof typeof digests].push(`'sha256-${createHash('sha256').update(content).digest('base64')}'`);
  const directives = [
    `default-src 'none'`,
    `script-src ${digests.script.join(' ') || `'none'`}`,
    `style-src ${digests.style.join(' ') || `'none'`}`,
    `img-src ${isDocument ? `'self' ` : ''}data:`,
    `base-uri 'none'`,
    `form-action ${isDocument ? `'self'` : `'none'`}`,
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
