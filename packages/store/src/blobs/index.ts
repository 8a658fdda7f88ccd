/**
 * Blobs, and ids of the records in them, for processes that open no database: no module of one is loaded.
 * `@trainyard/store/blobs`.
 */
export { StoreError } from '../contract/errors.ts';
export type { BlobLocation, Blobs } from '../contract/blobs.ts';
export { choiceRecordId, recordIdByTokens } from '../parts/choice-records/choice-records.ts';
export { JsonLine } from './json-lines.ts';
export { BUCKET_KEY_VARIABLES, openBlobs } from './open-blobs.ts';
