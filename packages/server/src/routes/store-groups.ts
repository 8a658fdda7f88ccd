import type { WireTrajectoryGroup } from '@trainyard/protocol';
import type { Blobs } from '@trainyard/store';

import { RequestError } from '../request-error.ts';

/**
 * Keeps trajectory groups as they were sent, one a line.
 *
 * @throws {RequestError} `request.invalid` when a value is nested so deeply that it cannot be written
 */
export async function storeGroups(blobs: Blobs, key: string, groups: readonly WireTrajectoryGroup[]): Promise<void> {
  try {
    await blobs.putJsonLines(key, groups);
  } catch (error) {
    // The serialiser calls itself: out of stack is the one RangeError it has. Looking at every value beforehand would cost more than writing.
    if (!(error instanceof RangeError)) throw error;
    throw RequestError.invalid([
      { loc: ['body', 'trajectory_groups'], msg: 'Input is nested too deeply', type: 'recursion_limit' },
    ]);
  }
}
