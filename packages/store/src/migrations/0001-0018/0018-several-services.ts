import type { Migration } from '../migration.ts';

/**
 * Several services on one database: whichever adds to the feed has the others told, where a database can tell. `blob_places` names the blobs that
 * belong to this database, so that a service that has others is not mistaken for one of its own.
 */
export const SEVERAL_SERVICES: Migration = {
  version: 18,
  name: 'several-services',
  sql: (words) => `
create table blob_places (
  only_row ${words.integer} primary key check (only_row = 1),
  id text not null
)${words.tableEnd};
${words.tellInsert({ trigger: 'feed_is_told', table: 'feed' })}
`,
};
