import { randomUUID } from 'node:crypto';

import type { VirtualTime } from './virtual-time.ts';
import type { ServiceProcess } from './service-process.ts';

/** Time after which a client gives up waiting, and asks another process. */
const PATIENCE_MS = 40_000;
const PAUSE_MS = 1_000;
/** A command without an answer after this time counts as lost. */
const LOST_AFTER_MS = 6 * 60_000;

export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly isReplay: boolean;
}

export class Violation extends Error {}

export interface ClientOptions {
  readonly name: string;
  readonly apiKey: string;
  readonly random: () => number;
  readonly time: VirtualTime;
  /** A process with HTTP that takes requests, as a load balancer would choose; null: none at the moment. */
  readonly anyProcess: () => ServiceProcess | null;
}

/**
 * A correct client: every request has an `Idempotency-Key` and is repeated until it is answered; some are
 * sent twice.
 */
export class ScheduleClient {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  get random(): () => number {
    return this.#options.random;
  }

  /** @throws {Violation} for a forbidden answer */
  async send(method: 'POST' | 'PUT' | 'DELETE', url: string, body?: object | string): Promise<Answer> {
    const { random, name } = this.#options;
    const key = `${name}-${randomUUID()}`;
    const chance = random();
    if (chance < 0.15) {
      const both = await Promise.all([this.#insist(method, url, body, key), this.#insist(method, url, body, key)]);
      return sameAnswer(url, both);
    }
    const answer = await this.#insist(method, url, body, key);
    if (chance > 0.4 || answer.status !== 200) return answer;
    const again = await this.#insist(method, url, body, key);
    if (!again.isReplay)
      throw new Violation(`${method} ${url} was answered twice under one key, with different answers`);
    return sameAnswer(url, [answer, again]);
  }

  async get<Body>(url: string): Promise<{ status: number; body: Body }> {
    const { status, body } = await this.#insist('GET', url, undefined, null);
    return { status, body: JSON.parse(body) as Body };
  }

  async #insist(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    url: string,
    body: object | string | undefined,
    key: string | null,
  ): Promise<Answer> {
    const { time, apiKey } = this.#options;
    const headers = {
      authorization: `Bearer ${apiKey}`,
      ...(key === null ? {} : { 'idempotency-key': key }),
      ...(body === undefined
        ? {}
        : { 'content-type': typeof body === 'string' ? 'application/octet-stream' : 'application/json' }),
    };
    const payload = typeof body === 'object' ? JSON.stringify(body) : body;
    const since = time.now;
    let last = 'no process took it';
    while (time.now < since + LOST_AFTER_MS) {
      const process = this.#options.anyProcess();
      const answer =
        process === null
          ? null
          : await this.#once(process, method, url, { headers, ...(payload === undefined ? {} : { body: payload }) });
      if (answer !== null) {
        if (answer.status === 500) throw new Violation(`${method} ${url} was answered 500: ${answer.body}`);
        if (!isPassing(answer)) return answer;
        last = `${answer.status} ${answer.body}`;
      }
      await time.sleep(PAUSE_MS * (0.5 + this.#options.random()));
    }
    throw new Violation(`${method} ${url} was never answered; at last: ${last}`);
  }

  async #once(
    process: ServiceProcess,
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    url: string,
    options: { headers: Record<string, string>; body?: string },
  ): Promise<Answer | null> {
    const { time } = this.#options;
    const answered = process.request(method, url, options).then(
      ({ statusCode, body, headers }) => ({
        status: statusCode,
        body,
        isReplay: headers['idempotent-replayed'] === 'true',
      }),
      // The connection was closed in the meantime.
      () => null,
    );
    return await Promise.race([answered, time.sleep(PATIENCE_MS).then(() => null)]);
  }
}

/** True if the same request is worth repeating. */
function isPassing({ status, body }: Answer): boolean {
  return status === 503 || status === 429 || (status === 409 && body.includes('request.idempotency_in_progress'));
}

function sameAnswer(url: string, [first, second]: readonly Answer[]): Answer {
  if (first === undefined || second === undefined) throw new Error('two answers are compared');
  if (first.status !== second.status || first.body !== second.body)
    throw new Violation(
      `${url} was answered differently under one key: ${first.status} ${first.body} and ${second.status} ${second.body}`,
    );
  return first;
}
