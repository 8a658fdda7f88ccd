import { createHash } from 'node:crypto';

import type { FastifyInstance } from 'fastify';
import { openApiDocument } from '@trainyard/protocol';

import { HTTP_FAULTS } from '../http-faults.ts';
import { PAGE_SCRIPT } from '../reference-page/page-script.ts';
import { PAGE_STYLE } from '../reference-page/page-style.ts';
import { renderReferencePage } from '../reference-page/render-page.ts';
import { SERVICE_VERSION } from '../service-version.ts';

/** GET /openapi.json and /docs: the API described by itself, for tools and for people. Both are made once, at start. */
export function referenceRoutes(app: FastifyInstance): void {
  const document = openApiDocument({ version: SERVICE_VERSION, faults: HTTP_FAULTS });
  const json = JSON.stringify(document);
  const page = renderReferencePage(document);
  // Nothing but the page's own script and style runs, and nothing is loaded from anywhere.
  const policy = `default-src 'none'; script-src '${hashOf(PAGE_SCRIPT)}'; style-src '${hashOf(PAGE_STYLE)}'`;

  app.get('/openapi.json', { config: { scope: 'public' } }, (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(json),
  );
  app.get('/docs', { config: { scope: 'public' } }, (_request, reply) =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(page),
  );
}

function hashOf(source: string): string {
  return `sha256-${createHash('sha256').update(source).digest('base64')}`;
}
