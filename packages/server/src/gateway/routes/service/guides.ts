import type { FastifyInstance } from 'fastify';

import { PICTURES } from '../../guides/guide-library.ts';
import { mediaTypeOf } from '../../pages/media-type.ts';
import { makePage, sendPage } from '../../pages/send-page.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';

interface Search {
  Querystring: { q?: string };
}

/** GET of the documents at `/guides`, and the search in them, as a page and as JSON; no routes without them. */
export function guideRoutes(app: FastifyInstance, { guides: library }: RouteParts): void {
  if (library === null) return;
  const config = { scope: 'public' } as const;
  const q = { type: 'string', maxLength: 200 };
  const search = { config, schema: { querystring: { type: 'object', properties: { q } } } };
  const asDocument = { isDocument: true };
  // The parser of Markdown is loaded with the first page.
  const pages = () => import('../../guides/render-guide.ts');

  app.get<Search>('/guides/search', search, async ({ query }, reply) => {
    const words = query.q?.trim() ?? '';
    const hits = (await library.search()).find(words);
    const { renderHits } = await pages();
    return sendPage(reply, makePage(renderHits(words, hits, await library.guides()), asDocument));
  });
  app.get<Search>('/guides/search.json', search, async ({ query }) => ({
    hits: (await library.search()).find(query.q ?? ''),
  }));
  app.get<{ Params: { '*': string } }>(`${PICTURES}*`, { config }, async ({ params }, reply) => {
    const path = params['*'];
    const picture = await library.picture(path);
    if (picture === null) throw new RequestError('request.not_found', 'Not Found');
    return (
      reply
        .type(mediaTypeOf(path))
        .header('x-content-type-options', 'nosniff')
        // A picture of the service's origin that is opened by itself runs no script.
        .header('content-security-policy', `default-src 'none'; style-src 'unsafe-inline'`)
        .header('cache-control', 'public, max-age=600')
        .send(picture)
    );
  });
  for (const url of ['/guides', '/guides/*'])
    app.get<{ Params: { '*'?: string } }>(url, { config }, async ({ params }, reply) => {
      const path = ['/guides', params['*']?.replace(/\/+$/, '')].filter(Boolean).join('/');
      const guides = await library.guides();
      const guide = guides.find(({ href }) => href === path);
      const { renderGuide, renderMissingGuide } = await pages();
      if (guide !== undefined) return sendPage(reply, makePage(renderGuide(guide, guides), asDocument));
      return sendPage(reply.code(404), makePage(renderMissingGuide(guides), asDocument));
    });
}
