/** Maximum source files directly in one folder, without tests: more cannot be overlooked at a glance. */
export const FILES_OF_A_FOLDER = 20;

/**
 * Ordered folders directly below `src` of some packages, the lowest first: each imports only those before it.
 * `index.ts` imports all.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const WINGS = {
  server: ['seams', 'hub', 'training-data', 'hosts', 'cluster', 'jobs', 'gateway', 'service'],
};
