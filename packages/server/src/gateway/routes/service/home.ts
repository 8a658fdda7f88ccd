import type { FastifyInstance } from 'fastify';
import type { Health } from '@trainyard/protocol';

import { type Home, renderHomePage, renderHomeText } from '../../pages/home-page.ts';
import { sendDashboard } from '../../pages/send-dashboard.ts';
import { makePage, sendPage } from '../../pages/send-page.ts';
import { connectSnippets } from '../../pages/snippets.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { SERVICE_VERSION } from '../../../seams/contract/service-version.ts';

/**
 * GET /: the dashboard for browsers, or without a build a page with the service's identity, state and next
 * steps; as text for other clients.
 */
export function homeRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.get('/', { config: { scope: 'public' } }, async (request, reply) => {
    const baseUrl = `${request.protocol}://${request.host}/v1`;
    const modelIds = parts.baseModels.all.map(({ id }) => id);
    const home: Home = {
      version: SERVICE_VERSION,
      state: await stateOf(app),
      baseUrl,
      modelIds,
      snippets: connectSnippets({ baseUrl, modelId: modelIds[0] ?? 'MODEL' }),
    };
    reply.header('vary', 'accept').header('cache-control', 'no-store');
    if (request.headers.accept?.includes('text/html')) {
      if (parts.dashboard !== null) return sendDashboard(reply, parts.dashboard);
      return sendPage(reply, makePage(renderHomePage(home)));
    }
    return reply.type('text/plain; charset=utf-8').send(renderHomeText(home));
  });
}

/** Reads the state from its own route, so that the two always agree. */
async function stateOf(app: FastifyInstance): Promise<Home['state']> {
  const { body } = await app.inject({ url: '/v1/health', headers: { host: 'localhost' } });
  const { status, reasons } = JSON.parse(body) as Partial<Health>;
  if (status === 'healthy') return { isHealthy: true, text: 'running' };
  // Without a status it is an error: the request itself was refused.
  const texts = (reasons ?? []).map(({ part, reason }) => `${part}: ${reason}`);
  return { isHealthy: false, text: texts.length === 0 ? 'not ready' : texts.join('; ') };
}
