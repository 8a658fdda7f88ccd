import { openVllmDriver } from './vllm-driver.ts';
import type { TokenDrivers } from './token-driver.ts';

/** Back ends for text in a host of its own. */
export const TOKEN_DRIVERS: TokenDrivers = {
  vllm: openVllmDriver,
};
