import type {
  Health,
  HostsObject,
  Liveness,
  OpenApiDocument,
  Readiness,
  ServiceEventObject,
  ServiceEventQuery,
  SystemCheck,
  UsageListObject,
  UsageQuery,
  Version,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { followEvents, type WatchOptions } from '../http/follow-events.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';

/** The most events of a page. */
const EVENT_PAGE = 1000;

/** How the service is, and which one it is. */
export class Service {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Also told by a service that does not sample. @throws {TrainyardConnectionError} when nothing answers */
  async health(options: CallOptions = {}): Promise<Health> {
    return await this.#connection.json('GET', '/v1/health', { alsoGood: [503], maxRetries: 0, ...options });
  }

  /** Whether the process runs, as a liveness probe asks. @throws as `health` */
  async live(options: CallOptions = {}): Promise<Liveness> {
    return await this.#connection.json('GET', '/livez', { maxRetries: 0, ...options });
  }

  /** Whether requests should go to this process, as a balancer asks. @throws as `health` */
  async ready(options: CallOptions = {}): Promise<Readiness> {
    return await this.#connection.json('GET', '/readyz', { alsoGood: [503], maxRetries: 0, ...options });
  }

  /** Whether all parts work as they should. @throws as `health` */
  async isHealthy(options: CallOptions = {}): Promise<boolean> {
    return (await this.health(options)).status !== 'degraded';
  }

  /** How each part is. @throws as `health` */
  async systemCheck(options: CallOptions = {}): Promise<SystemCheck> {
    return await this.#connection.json('GET', '/v1/system-check', { alsoGood: [503], maxRetries: 0, ...options });
  }

  async version(options: CallOptions = {}): Promise<Version> {
    return await this.#connection.json('GET', '/v1/version', options);
  }

  /** Counts and timings as text for Prometheus. */
  async prometheus(options: CallOptions = {}): Promise<string> {
    return await this.#connection.text('GET', '/metrics', options);
  }

  /** The description of the API for tools. */
  async openApi(options: CallOptions = {}): Promise<OpenApiDocument> {
    return await this.#connection.json('GET', '/openapi.json', options);
  }
}

/** Events of models and jobs. */
export class Events {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Those of the last week, oldest first. */
  list(query: ServiceEventQuery = {}, options: CallOptions = {}): PagePromise<ServiceEventObject> {
    return listPages(this.#connection, '/v1/preview/events', query, options);
  }

  /** Events from now on, or behind `after`, for as long as the loop goes. @throws as `followEvents` */
  watch(
    query: Pick<ServiceEventQuery, 'model_id'> = {},
    options: WatchOptions = {},
  ): AsyncGenerator<ServiceEventObject, undefined> {
    const feed = {
      path: '/v1/preview/events',
      query,
      pageSize: EVENT_PAGE,
      beginsNow: true,
      isLast: () => false,
    };
    return followEvents(this.#connection, feed, options);
  }
}

/** Tokens that were sampled and trained. */
export class Usage {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Sums of a time, told apart `by` project, key, model, kind or day. */
  async read(query: UsageQuery = {}, options: CallOptions = {}): Promise<UsageListObject> {
    return await this.#connection.json('GET', '/v1/preview/usage', { ...options, query });
  }
}

/** The parts that sample, train and remember. Takes a key with the scope `admin`. */
export class Hosts {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async read(options: CallOptions = {}): Promise<HostsObject> {
    return await this.#connection.json('GET', '/v1/preview/hosts', options);
  }
}
