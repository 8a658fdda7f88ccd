import type { FastifyInstance, FastifyReply } from 'fastify';
import {
  type ListPage,
  type ServiceEventObject,
  type ServiceEventQuery,
  ServiceEventQuerySchema,
} from '@trainyard/protocol';
import type { FeedItem, FeedQuery } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { eventIdOf, positionOfEvent } from '../../answers/event-cursor.ts';
import type { FeedWatch } from '../../answers/feed-watch.ts';
import { lastEventIdOf, sendLiveEvents, wantsLiveEvents } from '../../answers/live-events.ts';
import { toListPage } from '../../answers/paging.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { ownedModel } from '../owned.ts';

const DEFAULT_LIMIT = 100;
/** Position before the first event. */
const BEGINNING = '0';

/** GET /v1/preview/events: past events as a page, or live events as a stream. */
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
        (await store.feed.list({ entityId, ...ofModel, ...part })).map(toEventObject);
      const from = after === undefined ? {} : { after: positionOf(after, entityId, ['query', 'after']) };
      if (!wantsLiveEvents(request)) {
        // One more than requested shows if there is a next page.
        const items = await read({ ...from, limit: limit + 1, order: order ?? 'asc' });
        return toListPage({ items: items.slice(0, limit), hasMore: items.length > limit }, (event) => event);
      }
      if (order === 'desc') throw wrong(['query', 'order'], 'Input should be asc for a stream', order);
      const lastId = lastEventIdOf(request);
      if (lastId !== null) positionOf(lastId, entityId, ['header', 'last-event-id']);
      const start = lastId ?? after ?? eventIdOf(await store.feed.lastPosition(), entityId);
      await sendLiveEvents(reply, watch, start, async (seen) => ({
        events: await read({
          after: positionOf(seen ?? BEGINNING, entityId, ['query', 'after']),
          limit: DEFAULT_LIMIT,
        }),
        isOver: false,
      }));
      return reply;
    },
  );
}

/** @throws {RequestError} `request.invalid` for a text that is not an event id of this entity */
function positionOf(id: string, entityId: string, place: string[]): number {
  const position = id === BEGINNING ? 0 : positionOfEvent(id, entityId);
  if (position === null) throw wrong(place, 'Input should be the id of an event', id);
  return position;
}

function wrong(loc: string[], msg: string, input: string): RequestError {
  return RequestError.invalid([{ loc, msg, type: 'value_error', input }]);
}

function toEventObject(item: FeedItem): ServiceEventObject {
  return {
    id: eventIdOf(item.position, item.entityId),
    type: item.type,
    model_id: item.modelId,
    job_id: item.jobId,
    created_at: Math.floor(item.createdAt / 1000),
    data: item.data,
  };
}
