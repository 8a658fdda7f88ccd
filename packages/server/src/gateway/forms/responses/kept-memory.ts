import type { FastifyRequest } from 'fastify';
import type { BeforeUnpacking } from '@trainyard/store';

import type { BodyCharge } from '../../bodies/body-intake.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';

/** Memory that a request uses for kept answers and conversations, in total. */
export interface KeptMemory {
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
export function keptMemoryOf(request: FastifyRequest, parts: RouteParts): KeptMemory {
  const { chatBodyBytes } = parts.limits;
  let memory: BodyCharge | null = null;
  let taken = 0;
  let charged = 0;
  return {
    open: async (numBytes) => {
      const more = taken + numBytes - charged;
      if (more <= 0) return;
      memory ??= request.bodyCharge ?? chargeWithoutBody(request, parts);
      await memory.charge(more);
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

/** Charge in the same budget for a request without a body, until it has ended. */
function chargeWithoutBody(request: FastifyRequest, { intake, bodyBudgets, limits }: RouteParts): BodyCharge {
  return intake.open(request, request.raw, { limit: limits.chatBodyBytes, budget: bodyBudgets.requests });
}
