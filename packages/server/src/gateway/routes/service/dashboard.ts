import type { FastifyInstance } from 'fastify';

import { RequestError } from '../../../seams/faults/request-error.ts';
import { sendAsset, sendDashboard } from '../../pages/send-dashboard.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

/** Addresses of the dashboard's pages; what they show, the page itself reads out of them. No route of the API begins like one. */
const PAGES = [
  '/sign-in',
  '/models',
  '/models/*',
  '/rollouts/*',
  '/chat',
  '/jobs',
  '/jobs/*',
  '/usage',
  '/keys',
  '/system',
];

/** GET of each page of the dashboard, and of its files; none where it was not built. */
export function dashboardRoutes(app: FastifyInstance, { dashboard }: RouteParts): void {
  if (dashboard === null) return;
  const config = { scope: 'public' } as const;
  for (const url of PAGES) app.get(url, { config }, (_request, reply) => sendDashboard(reply, dashboard));
  app.get<{ Params: { name: string } }>('/assets/:name', { config }, ({ params }, reply) => {
    const asset = dashboard.assets.get(params.name);
    // A page that was open during an update asks for files of before.
    if (asset === undefined) throw new RequestError('request.not_found', 'Not Found');
    return sendAsset(reply, asset);
  });
}
