/** Source files directly in one folder, tests apart: more are no longer seen at a glance. */
export const FILES_OF_A_FOLDER = 20;

/**
 * The folders directly below `src` of packages that have an order of them, from the ground: each imports only those before it. `index.ts` imports all.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const WINGS = {
  server: ['seams', 'training-data', 'hosts', 'cluster', 'jobs', 'gateway', 'service'],
};

/**
 * Violations that predate the check `rooms`, each number a ceiling. A number may only shrink, and a line may only be removed.
 *
 * @type {Readonly<Record<'knottedFiles' | 'crowdedFolders', Readonly<Record<string, number>>>>}
 */
export const ROOM_DEBTS = {
  /** By package: files that import each other in circles, types included. */
  knottedFiles: {},
  /** By folder: source files in it. */
  crowdedFolders: {},
};
