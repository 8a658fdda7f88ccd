import type { FastifyInstance, FastifyReply } from 'fastify';
import {
  type ListPage,
  type ServiceEventObject,
  type ServiceEventQuery,
  ServiceEventQuerySchema,
} from '@trainyard/protocol';
import type { FeedItem } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import type { FeedWatch } from '../../answers/feed-watch.ts';
import { lastEventIdOf, sendLiveEvents, wantsLiveEvents } from '../../answers/live-events.ts';
import { toListPage } from '../../answers/paging.ts';
import { RequestError } from '../../faults/request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { ownedModel } from '../owned.ts';

const DEFAULT_LIMIT = 100;
const POSITION = /^[0-9]{1,15}$/;

/** GET /v1/preview/events: what happened, as a page, or as a stream of what happens. */
export function serviceEventRoutes(app: FastifyInstance, parts: RouteParts, watch: FeedWatch): void {
  const { store } = parts;
  app.get<{ Querystring: ServiceEventQuery }>(
    '/v1/preview/events',
    { config: { scope: 'training' }, schema: { querystring: ServiceEventQuerySchema } },
    async (request, reply): Promise<ListPage<ServiceEventObject> | FastifyReply> => {
      const { after, limit = DEFAULT_LIMIT, model_id: modelId } = request.query;
      const { entityId } = callerOf(request);
      const ofModel = modelId === undefined ? {} : { modelId: (await ownedModel(request, parts, modelId)).id };
      const read = async (position: number, most: number) =>
        (await store.listFeed({ entityId, ...ofModel, after: position, limit: most })).map(toEventObject);
      if (!wantsLiveEvents(request)) {
        // One more than asked for tells whether there is a next page.
        const items = await read(Number(after ?? 0), limit + 1);
        return toListPage({ items: items.slice(0, limit), hasMore: items.length > limit }, (event) => event);
      }
      const start = positionOf(lastEventIdOf(request)) ?? after ?? String(await store.lastFeedPosition());
      await sendLiveEvents(reply, watch, start, async (seen) => ({
        events: await read(Number(seen), DEFAULT_LIMIT),
        isOver: false,
      }));
      return reply;
    },
  );
}

function positionOf(lastEventId: string | null): string | null {
  if (lastEventId === null || POSITION.test(lastEventId)) return lastEventId;
  throw RequestError.invalid([
    {
      loc: ['header', 'last-event-id'],
      msg: 'Input should be the id of an event',
      type: 'value_error',
      input: lastEventId,
    },
  ]);
}

function toEventObject(item: FeedItem): ServiceEventObject {
  return {
    id: String(item.position),
    type: item.type,
    model_id: item.modelId,
    job_id: item.jobId,
    created_at: Math.floor(item.createdAt / 1000),
    data: item.data,
  };
}
