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

const EVENT_PAGE = 1000;

/** State and identity of the service. */
export class Service {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * State of the service, also of one that does not sample. @throws {TrainyardConnectionError} without a
   * response
   */
  async health(options: CallOptions = {}): Promise<Health> {
    return await this.#connection.json('GET', '/v1/health', { alsoGood: [503], maxRetries: 0, ...options });
  }

  /** Liveness probe: the process runs. @throws as `health` */
  async live(options: CallOptions = {}): Promise<Liveness> {
    return await this.#connection.json('GET', '/livez', { maxRetries: 0, ...options });
  }

  /** Readiness probe: a balancer should send requests to this process. @throws as `health` */
  async ready(options: CallOptions = {}): Promise<Readiness> {
    return await this.#connection.json('GET', '/readyz', { alsoGood: [503], maxRetries: 0, ...options });
  }

  /** True if all parts work. @throws as `health` */
  async isHealthy(options: CallOptions = {}): Promise<boolean> {
    return (await this.health(options)).status !== 'degraded';
  }

  /** State of each part. @throws as `health` */
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

  /** Machine-readable description of the API. */
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

  /** Events of the last week, oldest first. */
  list(query: ServiceEventQuery = {}, options: CallOptions = {}): PagePromise<ServiceEventObject> {
    return listPages(this.#connection, '/v1/preview/events', query, options);
  }

  /** Yields events from now on, or after `after`, until the loop ends. @throws as `followEvents` */
  watch(
    query: Pick<ServiceEventQuery, 'model_id'> = {},
    options: WatchOptions = {},
  ): AsyncGenerator<ServiceEventObject, undefined> {
    const feed = {
      path: '/v1/preview/events',
      query,
      pageSize: EVENT_PAGE,
      startsNow: true,
      isLast: () => false,
    };
    return followEvents(this.#connection, feed, options);
  }
}

/** Usage of sampled and trained tokens. */
export class Usage {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Sums over a period, grouped `by` project, key, model, kind or day. */
  async read(query: UsageQuery = {}, options: CallOptions = {}): Promise<UsageListObject> {
    return await this.#connection.json('GET', '/v1/preview/usage', { ...options, query });
  }
}

/** Parts of the service that sample, train and store. Needs a key with the scope `admin`. */
export class Hosts {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async read(options: CallOptions = {}): Promise<HostsObject> {
    return await this.#connection.json('GET', '/v1/preview/hosts', options);
  }
}
