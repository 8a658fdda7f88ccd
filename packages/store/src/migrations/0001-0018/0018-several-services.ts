import type { Migration } from '../migration.ts';

/**
 * Several services on one database: an addition to the feed notifies the others, if the database can.
 * `blob_places` names the blobs that belong to this database, so that a service with other blobs is detected.
 */
export const SEVERAL_SERVICES: Migration = {
  version: 18,
  name: 'several-services',
  sql: (words) => `
create table blob_places (
  only_row ${words.integer} primary key check (only_row = 1),
  id text not null
)${words.tableEnd};
${words.notifyOnInsert({ trigger: 'feed_is_told', table: 'feed' })}
`,
};
