/** Source files directly in one folder, tests apart: more are no longer seen at a glance. */
export const FILES_OF_A_FOLDER = 20;

/**
 * Violations that predate the check `rooms`, each number a ceiling. A number may only shrink, and a line may only be removed.
 *
 * @type {Readonly<Record<'knottedFiles' | 'knottedRooms' | 'crowdedFolders', Readonly<Record<string, number>>>>}
 */
export const ROOM_DEBTS = {
  /** By package: files that import each other in circles, types included. */
  knottedFiles: {},
  /** By package: folders directly below `src`, and `src` itself, that import each other in circles. */
  knottedRooms: {},
  /** By folder: source files in it. */
  crowdedFolders: {},
};
