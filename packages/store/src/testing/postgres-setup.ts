import { PostgresCluster, SERVER_VARIABLE } from './postgres-cluster.ts';

/** One server for all files of a project, for Vitest's `globalSetup`. @returns ends it */
export async function setup(): Promise<() => Promise<void>> {
  const programs = process.env['TRAINYARD_TEST_POSTGRES_PROGRAMS'];
  if (programs === undefined) throw new Error("the project sets the path of the server's programs");
  const cluster = await PostgresCluster.start(programs);
  process.env[SERVER_VARIABLE] = cluster.url;
  return () => cluster.stop();
}
