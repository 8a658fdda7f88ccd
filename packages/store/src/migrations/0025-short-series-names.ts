import type { Migration } from './migration.ts';

/** A row of an index of a server has room for 2,700 bytes. */
const MAX_CHARACTERS = 256;

/** Names of series are as long as can be asked for, so that every database can hold them. Where two begin alike, each gets its number. */
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
