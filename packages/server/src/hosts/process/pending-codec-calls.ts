import { randomUUID } from 'node:crypto';

import { BackendFailure, toBackendFailure } from '../../seams/faults/backend-failure.ts';
import type { CodecReply } from './messages.ts';

type Reply<Kind extends CodecReply['kind']> = Extract<CodecReply, { kind: Kind }>;

export class PendingCodecCalls {
  readonly #waiting = new Map<string, PromiseWithResolvers<CodecReply>>();

  /**
   * @param send returns false without a host
   * @throws {BackendFailure} the host's refusal, or `engine.host_lost`
   */
  async run<Kind extends Exclude<CodecReply['kind'], 'codec-failed'>>(
    send: (requestId: string) => boolean,
    kind: Kind,
  ): Promise<Reply<Kind>> {
    const requestId = randomUUID();
    const call = Promise.withResolvers<CodecReply>();
    this.#waiting.set(requestId, call);
    try {
      if (!send(requestId))
        throw new BackendFailure('engine.host_lost', 'the request did not reach the inference engine', null);
      const reply = await call.promise;
      if (reply.kind === 'codec-failed') throw toBackendFailure(reply);
      if (reply.kind !== kind) throw new Error(`the engine host answered ${reply.kind} for ${kind}`);
      return reply as Reply<Kind>;
    } finally {
      this.#waiting.delete(requestId);
    }
  }

  settle(reply: CodecReply): void {
    this.#waiting.get(reply.requestId)?.resolve(reply);
  }

  failAll(message: string): void {
    for (const call of this.#waiting.values()) call.reject(new BackendFailure('engine.host_lost', message, null));
  }
}
