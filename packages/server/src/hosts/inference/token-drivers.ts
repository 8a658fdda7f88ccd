import { openEmbeddedDriver } from './embedded-driver.ts';
import type { TokenDrivers } from './token-driver.ts';

/** What text can stand on in a host of its own. */
export const TOKEN_DRIVERS: TokenDrivers = {
  embedded: openEmbeddedDriver,
};
