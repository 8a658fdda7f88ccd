import type { FastifyInstance, FastifyReply } from 'fastify';
import {
  type ListPage,
  type ServiceEventObject,
  type ServiceEventQuery,
  ServiceEventQuerySchema,
} from '@trainyard/protocol';
import type { FeedItem, FeedQuery } from '@trainyard/store';

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
      const { after, limit = DEFAULT_LIMIT, model_id: modelId, order } = request.query;
      const { entityId } = callerOf(request);
      const ofModel = modelId === undefined ? {} : { modelId: (await ownedModel(request, parts, modelId)).id };
      const read = async (part: Pick<FeedQuery, 'after' | 'limit' | 'order'>) =>
        (await store.listFeed({ entityId, ...ofModel, ...part })).map(toEventObject);
      if (!wantsLiveEvents(request)) {
        // One more than asked for tells whether there is a next page.
        const behind = after === undefined ? {} : { after: Number(after) };
        const items = await read({ ...behind, limit: limit + 1, order: order ?? 'asc' });
        return toListPage({ items: items.slice(0, limit), hasMore: items.length > limit }, (event) => event);
      }
      if (order === 'desc') throw wrong(['query', 'order'], 'Input should be asc for a stream', order);
      const start = positionOf(lastEventIdOf(request)) ?? after ?? String(await store.lastFeedPosition());
      await sendLiveEvents(reply, watch, start, async (seen) => ({
        events: await read({ after: Number(seen), limit: DEFAULT_LIMIT }),
        isOver: false,
      }));
      return reply;
    },
  );
}

function positionOf(lastEventId: string | null): string | null {
  if (lastEventId === null || POSITION.test(lastEventId)) return lastEventId;
  throw wrong(['header', 'last-event-id'], 'Input should be the id of an event', lastEventId);
}

function wrong(loc: string[], msg: string, input: string): RequestError {
  return RequestError.invalid([{ loc, msg, type: 'value_error', input }]);
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
