import Type, { type Static } from 'typebox';

/** Metrics of a model, as series. */

const MetricSeriesSchema = Type.Object(
  {
    name: Type.String({ description: '`train/…` for gradient steps, `<split>/…` for logged trajectories.' }),
    num_points: Type.Integer({
      minimum: 1,
      description: 'Number of values, including those of jobs that failed or were cancelled.',
    }),
    last_value: Type.Number(),
    last_step: Type.Integer({ minimum: 0, description: 'Step of the model with the last value.' }),
  },
  { title: 'MetricSeries' },
);

export const MetricListSchema = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(MetricSeriesSchema, { description: 'Sorted by name.' }) },
  { title: 'MetricList' },
);
export type MetricListObject = Static<typeof MetricListSchema>;

const Names = Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { minItems: 1, maxItems: 64 });

export const SeriesQuerySchema = Type.Object({
  name: Type.Union([Type.String({ minLength: 1, maxLength: 256 }), Names], {
    description: 'Name of a metric. Repeat it for several series.',
  }),
  axis: Type.Optional(
    Type.Enum(['step', 'gradient_step'], {
      description:
        'Axis of the points. `step` (the default): steps of the model, one point each. `gradient_step`: gradient steps over all its jobs, from 0; logs have none.',
    }),
  ),
  max_points: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10_000,
      default: 1000,
      description: 'Maximum number of points per series. If there are more, neighbouring points are merged.',
    }),
  ),
  from: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 53 - 1, description: 'First position on the axis.' })),
  to: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 2 ** 53 - 1, description: 'Last position on the axis, inclusive.' }),
  ),
});
export type SeriesQueryObject = Static<typeof SeriesQuerySchema>;

const Column = (description: string) => Type.Array(Type.Number(), { description });

const SeriesSchema = Type.Object(
  {
    name: Type.String(),
    num_places: Type.Integer({
      minimum: 0,
      description: 'Number of positions with a value, before merging.',
    }),
    first: Column('Position of the first value of each point.'),
    last: Column('Position of the last value of each point.'),
    mean: Column('Mean of the values of each point.'),
    min: Column('Minimum of the values of each point.'),
    max: Column('Maximum of the values of each point.'),
    count: Column('Number of values of each point.'),
    recorded_at: Column('Unix seconds when the last value of each point was recorded.'),
    discarded: Type.Object(
      {
        at: Column('Position of each value.'),
        value: Column('The values.'),
        job_id: Type.Array(Type.String(), { description: 'Job of each value.' }),
      },
      {
        description:
          'Values of jobs that failed or were cancelled, the last 1,000. Their step does not exist, so no point and no other figure of the model contains them.',
      },
    ),
  },
  {
    title: 'Series',
    description: 'Columns of equal length: the i-th entries form the i-th point. `discarded` has columns of its own.',
  },
);
export type SeriesObject = Static<typeof SeriesSchema>;

export const SeriesListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    axis: Type.Enum(['step', 'gradient_step']),
    data: Type.Array(SeriesSchema, {
      description: 'In the order of the requested names. An unknown name has empty columns.',
    }),
  },
  { title: 'SeriesList' },
);
export type SeriesListObject = Static<typeof SeriesListSchema>;
