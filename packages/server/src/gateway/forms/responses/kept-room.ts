import type { FastifyRequest } from 'fastify';
import type { BeforeUnpacking } from '@trainyard/store';

import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

/** Room that a request takes for kept answers and conversations, all together. */
export interface KeptRoom {
  /** Charges what is unpacked for a while. */
  readonly open: BeforeUnpacking;
  /** Counts what becomes a part of the conversation. @param param names what asks for it @throws {RequestError} `request.body_too_large` */
  take(numBytes: number, param: string): void;
}

/** Charges for texts of the store as for a body of that size. */
export function roomOf(request: FastifyRequest, { limits: { chatBodyBytes } }: RouteParts): KeptRoom {
  let taken = 0;
  let charged = 0;
  return {
    open: async (numBytes) => {
      const more = taken + numBytes - charged;
      if (more <= 0) return;
      await request.bodyRoom?.charge(more);
      charged += more;
    },
    take: (numBytes, param) => {
      taken += numBytes;
      if (taken <= chatBodyBytes) return;
      throw new RequestError(
        'request.body_too_large',
        `What \`${param}\` names and what stands before it have more than ${chatBodyBytes} bytes (${taken}): no conversation of this length can be continued. Send a shorter one as \`input\``,
        { param },
      );
    },
  };
}
