import type { FastifyInstance } from 'fastify';
import { openApiDocument } from '@trainyard/protocol';

import { HTTP_FAULTS } from '../../faults/http-faults.ts';
import { makePage, sendPage } from '../../pages/send-page.ts';
import { renderReferencePage } from '../../reference-page/render-page.ts';
import { SERVICE_VERSION } from '../../service/service-version.ts';

/** GET /openapi.json and /docs: the API described by itself, for tools and for people. Both are made once, at start. */
export function referenceRoutes(app: FastifyInstance): void {
  const document = openApiDocument({ version: SERVICE_VERSION, faults: HTTP_FAULTS });
  const json = JSON.stringify(document);
  const page = makePage(renderReferencePage(document));

  app.get('/openapi.json', { config: { scope: 'public' } }, (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(json),
  );
  app.get('/docs', { config: { scope: 'public' } }, (_request, reply) => sendPage(reply, page));
}
