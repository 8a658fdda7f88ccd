/**
 * Suites for every database driver and every kind of blobs, and the smallest driver that passes:
 * `@trainyard/store/testing`.
 */
export { type BlobsHarness, blobsSuite } from './blobs.suite.ts';
export { freePort } from './free-port.ts';
export { addJob, addModel, claim, ManualClock, type MakeHarness, type StoreHarness } from './harness.ts';
export { holdWriters } from './hold-writers.ts';
export { MemoryBucket } from './memory-bucket.ts';
export { MemoryDatabase, MemorySql } from './memory-sql.ts';
export { CREDENTIALS, REGION, S3Server } from './s3-server.ts';
export { type SqlHarness, sqlSuite } from './sql.suite.ts';
export { storeSuite } from './store.suite.ts';
export { createSchema, PostgresCluster, SERVER_VARIABLE, type ServedNetwork } from './postgres-cluster.ts';
export { kindOf, makeMessage, PostgresMessages } from './postgres-messages.ts';
export { connectTo, doublingNotifications, PostgresProxy } from './postgres-proxy.ts';
export { SchemaPool } from './schema-pool.ts';
export { queryServer, SchemaConnection } from './schema-connection.ts';
export { unreliableNetwork } from './unreliable-network.ts';
