import type { Migration } from '../migration.ts';
import { STEPS_01_TO_11 } from './steps-01-to-11.ts';
import { STEPS_12_TO_18 } from './steps-12-to-18.ts';
import { STEPS_19_TO_31 } from './steps-19-to-31.ts';

/**
 * Steps to the schema of the first release, version 31; never edited. They upgrade databases of earlier
 * versions. A new database is created by `../0031-schema.ts`.
 */
export const BEFORE_FIRST_RELEASE: readonly Migration[] = [...STEPS_01_TO_11, ...STEPS_12_TO_18, ...STEPS_19_TO_31];
