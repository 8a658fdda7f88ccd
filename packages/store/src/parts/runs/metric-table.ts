import assert from 'node:assert/strict';
import type { BestCheckpoint, Metrics, MetricSeries, Series, SeriesAxis, SeriesPoint, SeriesQuery } from './runs.ts';
import type { Statements } from '../../contract/sql.ts';
import { partsOf, rowsOf, rowsOfIds } from '../rows-of.ts';

const MAX_POINTS = 10_000;
const liveModels = (marks: string): string => `select id from models where id in (${marks}) and deleted_at is null`;
const LIVE_MODEL = liveModels('?');
/** Maximum length of the name of a series in queries. An index row has room for 2,700 bytes in PostgreSQL. */
const MAX_NAME_CHARACTERS = 256;
/** A statement stays prepared for each number of series. */
const SERIES_AT_A_TIME = 100;
const DELETED_MODELS = 'select id from models where deleted_at is not null';

export interface MetricPlace {
  step: number;
  /** Null without a gradient step, as for logs. */
  gradientStep: number | null;
  /** Position of the job; null for logs. */
  job: number | null;
}

type SeriesRow = { name: string; num_points: number; value: number; step: number };
type PointRow = {
  first: number;
  last: number;
  /** Sums of the values; large ones divided by {@link PART}. */
  small: number;
  large: number;
  low: number;
  high: number;
  number: number;
  recorded_at: number;
  places: number;
};

/** Jobs that made no step: their points count in no figure of the model. */
const WITHOUT_STEP = "('failed', 'cancelled')";
/** Points of such jobs per series, the last ones. */
const MAX_DISCARDED = 1_000;

function isKept(points: string, modelId: string): string {
  return `(${points}.job_position is null or ${points}.job_position not in (
    select position from jobs where model_id = ${modelId} and status in ${WITHOUT_STEP}))`;
}

const LAST_POINT = `(select q.position from metric_points q where q.series_id = s.id and ${isKept('q', 's.model_id')}
  order by q.position desc limit 1)`;

/** Metrics of runs: one series per name, in the order of writing. */
export class MetricTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /**
   * Adds a point to each of these series. All writers wait meanwhile, so many series take only two
   * statements.
   */
  async append(modelId: string, metrics: Metrics, place: MetricPlace, now: number): Promise<void> {
    for (const [name, value] of Object.entries(metrics))
      assert(Number.isFinite(value), `metric ${name} must be a finite number, got ${value}`);
    // A statement has each series once, so names that are stored alike go to successive statements.
    const turns: Map<string, number>[] = [];
    const numOf = new Map<string, number>();
    for (const [name, value] of Object.entries(metrics)) {
      const kept = asKept(name);
      const turn = numOf.get(kept) ?? 0;
      numOf.set(kept, turn + 1);
      (turns[turn] ??= new Map()).set(kept, value);
    }
    for (const turn of turns)
      for (const some of partsOf([...turn], SERIES_AT_A_TIME))
        await this.#appendSome(modelId, new Map(some), place, now);
  }

  async #appendSome(
    modelId: string,
    metrics: ReadonlyMap<string, number>,
    { step, gradientStep, job }: MetricPlace,
    now: number,
  ): Promise<void> {
    const series = await this.#sql.all<{ id: number; name: string; num_points: number }>(
      `insert into metric_series (model_id, name, num_points) values ${rowsOf(metrics.size, '(?, ?, 1)')}
       on conflict (model_id, name) do update set num_points = metric_series.num_points + 1 returning id, name, num_points`,
      ...[...metrics.keys()].flatMap((name) => [modelId, name]),
    );
    const points = series.flatMap(({ id, name, num_points: numPoints }) => {
      const value = metrics.get(name);
      if (value === undefined) throw new Error(`the series ${name} was not requested`);
      return [id, numPoints - 1, step, gradientStep, value, now, job];
    });
    await this.#sql.run(
      `insert into metric_points (series_id, position, step, gradient_step, value, recorded_at, job_position)
       values ${rowsOf(metrics.size, '(?, ?, ?, ?, ?, ?, ?)')}`,
      ...points,
    );
  }

  async list(modelId: string): Promise<MetricSeries[]> {
    const rows = await this.#sql.all<SeriesRow>(
      `select s.name, s.num_points, p.value, p.step from metric_series s
       join metric_points p on p.series_id = s.id and p.position = ${LAST_POINT}
       where s.model_id = (${LIVE_MODEL}) order by s.name`,
      modelId,
    );
    return rows.map((row) => ({
      name: row.name,
      numPoints: row.num_points,
      last: { value: row.value, step: row.step },
    }));
  }

  /** Latest point of a series of each of these models, by model; no entry without points. */
  async last(modelIds: readonly string[], name: string): Promise<Map<string, { step: number; value: number }>> {
    const rows = await rowsOfIds<{ model_id: string; step: number; value: number }>(
      this.#sql,
      modelIds,
      (marks) => `select s.model_id, p.step, p.value from metric_series s
       join metric_points p on p.series_id = s.id and p.position = ${LAST_POINT}
       where s.model_id in (${liveModels(marks)}) and s.name = ?`,
      { after: [name] },
    );
    return new Map(rows.map(({ model_id: modelId, step, value }) => [modelId, { step, value }]));
  }

  /**
   * Best kept checkpoint of each of these models, by the first of these metrics that any of its checkpoints
   * has.
   */
  async best(modelIds: readonly string[], names: readonly string[]): Promise<Map<string, BestCheckpoint>> {
    const turnOf = names.map((_, index) => `when ? then ${index}`).join(' ');
    const rows = await rowsOfIds<{ model_id: string; metric: string; step: number; value: number }>(
      this.#sql,
      modelIds,
      // Of the many steps of a model and metric the window keeps one: the first in this order.
      (marks) => `select model_id, metric, step, value from (
         select means.*, row_number() over (partition by model_id order by turn, value desc, step) as place from (
           select s.model_id, s.name as metric, p.step, avg(p.value) as value, case s.name ${turnOf} end as turn
           from metric_series s join metric_points p on p.series_id = s.id
           join checkpoints c on c.model_id = s.model_id and c.step = p.step and c.deleted_at is null
           where s.model_id in (${liveModels(marks)}) and s.name in (${rowsOf(names.length, '?')}) and ${isKept('p', 's.model_id')}
           group by s.model_id, s.name, p.step) means) placed
       where place = 1`,
      { before: names, after: names },
    );
    return new Map(rows.map(({ model_id: modelId, ...best }) => [modelId, best]));
  }

  async read(query: SeriesQuery): Promise<Series[]> {
    const { modelId, axis, maxPoints, from = 0, to = Number.MAX_SAFE_INTEGER } = query;
    assert(
      Number.isInteger(maxPoints) && maxPoints >= 1 && maxPoints <= MAX_POINTS,
      `maxPoints must be an integer in 1..${MAX_POINTS}, got ${maxPoints}`,
    );
    const series: Series[] = [];
    for (const name of query.names) {
      const id = (
        await this.#sql.get<{ id: number }>(
          `select id from metric_series where model_id = (${LIVE_MODEL}) and name = ?`,
          modelId,
          name,
        )
      )?.id;
      if (id === undefined) {
        series.push({ name, numPlaces: 0, points: [], discarded: [] });
        continue;
      }
      const rows = await this.#sql.all<PointRow>(
        `select min(place) as first, max(place) as last, sum(small) as small, sum(large) as large, min(low) as low, max(high) as high,
           cast(sum(number) as bigint) as number, max(recorded_at) as recorded_at, count(*) as places
         from (select places.*, ntile(cast(? as integer)) over (order by place) as bucket from (${placesOf(name, axis)}) places) buckets
         group by bucket order by bucket`,
        maxPoints,
        id,
        from,
        to,
        modelId,
      );
      const discarded = await this.#sql.all<{ place: number; value: number; job_id: string }>(
        `select p.${axis} as place, p.value, j.id as job_id from jobs j join metric_points p on p.job_position = j.position
         where j.model_id = ? and j.status in ${WITHOUT_STEP} and p.series_id = ? and p.${axis} >= ? and p.${axis} <= ?
         order by p.position desc limit ?`,
        modelId,
        id,
        from,
        to,
        MAX_DISCARDED,
      );
      const numPlaces = rows.reduce((sum, row) => sum + row.places, 0);
      series.push({
        name,
        numPlaces,
        points: rows.map(toPoint),
        discarded: discarded.toReversed().map(({ place, value, job_id: jobId }) => ({ place, value, jobId })),
      });
    }
    return series;
  }

  /**
   * Removes up to `limit` rows of deleted models: points first, then their series.
   * @returns the number removed; less than `limit` if there are no more
   */
  async deleteOfDeleted(limit: number): Promise<number> {
    const series = `select id from metric_series where model_id in (${DELETED_MODELS})`;
    const numPoints = await this.#sql.run(
      `delete from metric_points where (series_id, position) in (
         select series_id, position from metric_points where series_id in (${series}) limit ?)`,
      limit,
    );
    if (numPoints >= limit) return numPoints;
    const ids = `select id from metric_series where model_id in (${DELETED_MODELS}) limit ?`;
    return numPoints + (await this.#sql.run(`delete from metric_series where id in (${ids})`, limit - numPoints));
  }
}

/**
 * Converts a name to the form that every database stores and finds. Names that differ only in the rest are
 * one series.
 */
function asKept(name: string): string {
  // Counts characters, each of up to two units.
  const [...characters] = name.slice(0, 2 * MAX_NAME_CHARACTERS);
  return characters.slice(0, MAX_NAME_CHARACTERS).join('').toWellFormed().replaceAll('\0', '\uFFFD');
}

const OF_A_RANGE = (column: SeriesAxis) =>
  `from metric_points p where series_id = ? and ${column} >= ? and ${column} <= ? and ${isKept('p', '?')}`;

/**
 * Larger values are summed separately, divided by a power of two, which is exact: no sum overflows, and no
 * small value is lost.
 */
const LARGE = 2 ** 960;
const PART = 2 ** 64;
const IS_LARGE = `abs(value) >= ${LARGE}`;
const SMALL = `case when ${IS_LARGE} then 0 else value end`;
const LARGE_PART = `case when ${IS_LARGE} then value / ${PART}.0 else 0 end`;

/** The places of series of this prefix have their last value: it is of the weights at that place. */
const OF_WEIGHTS = 'held_out/';

function placesOf(name: string, axis: SeriesAxis): string {
  if (!name.startsWith(OF_WEIGHTS)) return PLACES[axis];
  return `select place, ${SMALL} as small, ${LARGE_PART} as large, value as low, value as high, 1 as number, recorded_at from (
      select ${axis} as place, value, recorded_at, row_number() over (partition by ${axis} order by position desc) as turn
      ${OF_A_RANGE(axis)}) newest where turn = 1`;
}

/**
 * One row per place on the axis, for the series and range of the parameters. A gradient step has one value.
 */
const PLACES: Readonly<Record<SeriesAxis, string>> = {
  step: `select step as place, sum(${SMALL}) as small, sum(${LARGE_PART}) as large, min(value) as low, max(value) as high,
      count(*) as number, max(recorded_at) as recorded_at
    ${OF_A_RANGE('step')} group by step`,
  gradient_step: `select gradient_step as place, ${SMALL} as small, ${LARGE_PART} as large, value as low, value as high,
      1 as number, recorded_at
    ${OF_A_RANGE('gradient_step')}`,
};

function toPoint(row: PointRow): SeriesPoint {
  return {
    first: row.first,
    last: row.last,
    mean: meanOf(row),
    min: row.low,
    max: row.high,
    count: row.number,
    recordedAt: row.recorded_at,
  };
}

/** Clamps the mean to the range of the values, because the sums are rounded. */
function meanOf({ small, large, number, low, high }: PointRow): number {
  return Math.min(Math.max(small / number + (large / number) * PART, low), high);
}
