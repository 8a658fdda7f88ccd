import type { FastifyInstance } from 'fastify';
import {
  type MetricListObject,
  type SeriesListObject,
  type SeriesObject,
  type SeriesQueryObject,
  SeriesQuerySchema,
} from '@trainyard/protocol';
import type { Series } from '@trainyard/store';

import type { RouteParts } from '../../parts/server-parts.ts';
import { ownedModel } from '../owned.ts';

const DEFAULT_POINTS = 1000;

/** GET /v1/preview/models/{model_id}/metrics and …/series. */
export function seriesRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store } = parts;

  app.get<{ Params: { model_id: string } }>(
    '/v1/preview/models/:model_id/metrics',
    { config: { scope: 'training' } },
    async (request): Promise<MetricListObject> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const series = await store.runs.listSeries(model.id);
      return {
        object: 'list',
        data: series.map(({ name, numPoints, last }) => ({
          name,
          num_points: numPoints,
          last_value: last.value,
          last_step: last.step,
        })),
      };
    },
  );

  app.get<{ Params: { model_id: string }; Querystring: SeriesQueryObject }>(
    '/v1/preview/models/:model_id/series',
    { config: { scope: 'training' }, schema: { querystring: SeriesQuerySchema } },
    async (request): Promise<SeriesListObject> => {
      const model = await ownedModel(request, parts, request.params.model_id);
      const { name, axis = 'step', max_points: maxPoints = DEFAULT_POINTS, from, to } = request.query;
      const series = await store.runs.readSeries({
        modelId: model.id,
        names: [...new Set([name].flat())],
        axis,
        maxPoints,
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
      });
      return { object: 'list', axis, data: series.map(toSeriesObject) };
    },
  );
}

function toSeriesObject({ name, numPlaces, points, discarded }: Series): SeriesObject {
  return {
    name,
    num_places: numPlaces,
    first: points.map(({ first }) => first),
    last: points.map(({ last }) => last),
    mean: points.map(({ mean }) => mean),
    min: points.map(({ min }) => min),
    max: points.map(({ max }) => max),
    count: points.map(({ count }) => count),
    recorded_at: points.map(({ recordedAt }) => Math.floor(recordedAt / 1000)),
    discarded: {
      at: discarded.map(({ place }) => place),
      value: discarded.map(({ value }) => value),
      job_id: discarded.map(({ jobId }) => jobId),
    },
  };
}
