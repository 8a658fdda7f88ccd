import type { FastifyInstance } from 'fastify';

import { RequestError } from '../../../seams/faults/request-error.ts';
import { sendAsset, sendDashboard } from '../../pages/send-dashboard.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

/** Paths of the dashboard's pages; the page itself parses them. No API route starts like one. */
const PAGES = [
  '/sign-in',
  '/models',
  '/models/*',
  '/compare',
  '/rollouts/*',
  '/chat',
  '/jobs',
  '/jobs/*',
  '/usage',
  '/keys',
  '/system',
];

/** GET of each page of the dashboard, and of its files; no routes if it was not built. */
export function dashboardRoutes(app: FastifyInstance, { dashboard }: RouteParts): void {
  if (dashboard === null) return;
  const config = { scope: 'public' } as const;
  for (const url of PAGES) app.get(url, { config }, (_request, reply) => sendDashboard(reply, dashboard));
  app.get<{ Params: { name: string } }>('/assets/:name', { config }, ({ params }, reply) => {
    const asset = dashboard.assets.get(params.name);
    // A page that was open during an update requests earlier files.
    if (asset === undefined) throw new RequestError('request.not_found', 'Not Found');
    return sendAsset(reply, asset);
  });
}
