import type { FastifyRequest } from 'fastify';
import type { BeforeUnpacking } from '@trainyard/store';

import type { BodyRoom } from '../../bodies/body-intake.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

/** Memory that a request uses for kept answers and conversations, in total. */
export interface KeptRoom {
  /** Charges unpacked data for a while. */
  readonly open: BeforeUnpacking;
  /**
   * Counts data that become part of the conversation.
   * @param param field that requests it
   * @throws {RequestError} `request.body_too_large`
   */
  take(numBytes: number, param: string): void;
}

/** Charges for stored texts as for a body of that size. */
export function roomOf(request: FastifyRequest, parts: RouteParts): KeptRoom {
  const { chatBodyBytes } = parts.limits;
  let room: BodyRoom | null = null;
  let taken = 0;
  let charged = 0;
  return {
    open: async (numBytes) => {
      const more = taken + numBytes - charged;
      if (more <= 0) return;
      room ??= request.bodyRoom ?? roomWithoutBody(request, parts);
      await room.charge(more);
      charged += more;
    },
    take: (numBytes, param) => {
      taken += numBytes;
      if (taken <= chatBodyBytes) return;
      throw new RequestError(
        'request.body_too_large',
        `Continuing \`${param}\` needs ${taken} bytes of conversation, more than the limit of ${chatBodyBytes}. Send a shorter conversation as \`input\``,
        { param },
      );
    },
  };
}

/** Room in the same budget for a request without a body, until it has ended. */
function roomWithoutBody(request: FastifyRequest, { intake, bodyBudgets, limits }: RouteParts): BodyRoom {
  return intake.open(request, request.raw, { limit: limits.chatBodyBytes, budget: bodyBudgets.requests });
}
