import type { FastifyInstance } from 'fastify';

import { makePage, sendPage } from '../../pages/send-page.ts';
import { apiDocument } from '../../reference-page/api-document.ts';
import { renderReferencePage } from '../../reference-page/render-page.ts';

/** GET /openapi.json and /docs: the API described by itself, for tools and for people. Both are made once, at start. */
export function referenceRoutes(app: FastifyInstance): void {
  const document = apiDocument();
  const json = JSON.stringify(document);
  const page = makePage(renderReferencePage(document));

  app.get('/openapi.json', { config: { scope: 'public' } }, (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(json),
  );
  app.get('/docs', { config: { scope: 'public' } }, (_request, reply) => sendPage(reply, page));
}
