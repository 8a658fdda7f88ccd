import type { TrajectoryContent, TrajectoryObject, TrajectoryPageQuery, TrajectoryTokens } from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';
import { path } from '../http/query.ts';

/** Rollouts that models were trained on, and those that were logged. */
export class Trajectories {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Without what they say, in the order in which they came or by reward (`sort`). */
  list(modelId: string, query: TrajectoryPageQuery = {}, options: CallOptions = {}): PagePromise<TrajectoryObject> {
    return listPages(this.#connection, path`/v1/preview/models/${modelId}/trajectories`, query, options);
  }

  /** One with what it says. */
  async retrieve(trajectoryId: string, options: CallOptions = {}): Promise<TrajectoryContent> {
    return await this.#connection.json('GET', path`/v1/preview/trajectories/${trajectoryId}`, options);
  }

  /** Its tokens as they were trained, for each gradient step that it was in. */
  async tokens(trajectoryId: string, options: CallOptions = {}): Promise<TrajectoryTokens> {
    return await this.#connection.json('GET', path`/v1/preview/trajectories/${trajectoryId}/tokens`, options);
  }
}
