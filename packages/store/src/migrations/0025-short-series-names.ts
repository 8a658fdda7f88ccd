import type { Migration } from './migration.ts';

/** An index row of a server has room for 2,700 bytes. */
const MAX_CHARACTERS = 256;

/**
 * Limits names of series to the length that can be requested, so that every database can hold them. Names
 * with the same start get their number.
 */
export const SHORT_SERIES_NAMES: Migration = {
  version: 25,
  name: 'short-series-names',
  sql: () => `
update metric_series set name = substr(name, 1, 230) || ' ' || cast(id as text)
  where length(name) > ${MAX_CHARACTERS} and exists (
    select 1 from metric_series other where other.model_id = metric_series.model_id and other.id <> metric_series.id
      and substr(other.name, 1, ${MAX_CHARACTERS}) = substr(metric_series.name, 1, ${MAX_CHARACTERS}));
update metric_series set name = substr(name, 1, ${MAX_CHARACTERS}) where length(name) > ${MAX_CHARACTERS};
`,
};
