/** Maximum source files directly in one folder, without tests: more cannot be overlooked at a glance. */
export const FILES_OF_A_FOLDER = 20;

/**
 * Ordered folders directly below `src` of some packages, the lowest first: each imports only those before it.
 * `index.ts` imports all.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const WINGS = {
  server: ['seams', 'training-data', 'hosts', 'cluster', 'jobs', 'gateway', 'service'],
};

/**
 * Violations from before the check `rooms`, as ceilings. Numbers may only shrink, and lines may only be removed.
 *
 * @type {Readonly<Record<'knottedFiles' | 'crowdedFolders', Readonly<Record<string, number>>>>}
 */
export const ROOM_DEBTS = {
  /** Number of files per package that import each other in circles, types included. */
  knottedFiles: {},
  /** Number of source files per folder. */
  crowdedFolders: {},
};
