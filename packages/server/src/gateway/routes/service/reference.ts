import type { FastifyInstance } from 'fastify';

import type { RouteParts } from '../../parts/server-parts.ts';
import { makePage, type Page, sendPage } from '../../pages/send-page.ts';
import { apiDocument } from '../../reference-page/api-document.ts';
import { renderReferencePage } from '../../reference-page/render-page.ts';

/** Description of this version's API, created on first use to keep the start short. */
class Reference {
  #json: string | null = null;
  #page: Page | null = null;
  readonly #hasGuides: boolean;

  constructor(hasGuides: boolean) {
    this.#hasGuides = hasGuides;
  }

  get json(): string {
    this.#json ??= JSON.stringify(apiDocument());
    return this.#json;
  }

  get page(): Page {
    this.#page ??= makePage(renderReferencePage(apiDocument(), this.#hasGuides));
    return this.#page;
  }
}

/** GET /openapi.json and /docs: description of the API, for tools and for people. */
export function referenceRoutes(app: FastifyInstance, { guides }: RouteParts): void {
  const reference = new Reference(guides !== null);
  app.get('/openapi.json', { config: { scope: 'public' } }, (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(reference.json),
  );
  app.get('/docs', { config: { scope: 'public' } }, (_request, reply) => sendPage(reply, reference.page));
}
