import Type, { type Static } from 'typebox';

/** Metrics of a model, as series. */

const MetricSeriesSchema = Type.Object(
  {
    name: Type.String({ description: '`train/…` of gradient steps, `<split>/…` of logged trajectories.' }),
    num_points: Type.Integer({ minimum: 1 }),
    last_value: Type.Number(),
    last_step: Type.Integer({ minimum: 0, description: 'Step of the model that the last value is of.' }),
  },
  { title: 'MetricSeries' },
);

export const MetricListSchema = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(MetricSeriesSchema, { description: 'By name.' }) },
  { title: 'MetricList' },
);
export type MetricListObject = Static<typeof MetricListSchema>;

const Names = Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { minItems: 1, maxItems: 64 });

export const SeriesQuerySchema = Type.Object({
  name: Type.Union([Type.String({ minLength: 1, maxLength: 256 }), Names], {
    description: 'Name of a metric; several times for several series.',
  }),
  axis: Type.Optional(
    Type.Enum(['step', 'gradient_step'], {
      description:
        'What points are counted by. `step`, the default: the steps of the model, one point each. `gradient_step`: its gradient steps over all jobs, from 0; logs have none.',
    }),
  ),
  max_points: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10_000,
      default: 1000,
      description: 'The most points of a series: where there are more, neighbours become one.',
    }),
  ),
  from: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 53 - 1, description: 'First place on the axis.' })),
  to: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 2 ** 53 - 1, description: 'Last place on the axis, inclusive.' }),
  ),
});
export type SeriesQueryObject = Static<typeof SeriesQuerySchema>;

const Column = (description: string) => Type.Array(Type.Number(), { description });

const SeriesSchema = Type.Object(
  {
    name: Type.String(),
    num_places: Type.Integer({
      minimum: 0,
      description: 'Places on the axis that have a value, before some became one.',
    }),
    first: Column('Place on the axis of the first value of each point.'),
    last: Column('Of the last one.'),
    mean: Column('Mean of the values of each point.'),
    min: Column('The least of them.'),
    max: Column('The most.'),
    count: Column('How many there are.'),
    recorded_at: Column('Unix seconds at which the last of them was recorded.'),
  },
  { title: 'Series', description: 'Columns of the same length: the i-th entries are the i-th point.' },
);
export type SeriesObject = Static<typeof SeriesSchema>;

export const SeriesListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    axis: Type.Enum(['step', 'gradient_step']),
    data: Type.Array(SeriesSchema, { description: 'In the order of the names; empty columns for an unknown name.' }),
  },
  { title: 'SeriesList' },
);
export type SeriesListObject = Static<typeof SeriesListSchema>;
