import type { TrajectoryContent, TrajectoryObject, TrajectoryPageQuery, TrajectoryTokens } from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';
import { path } from '../http/query.ts';

/** Trained and logged rollouts. */
export class Trajectories {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Trajectories without their content, in order of arrival or by reward (`sort`). */
  list(modelId: string, query: TrajectoryPageQuery = {}, options: CallOptions = {}): PagePromise<TrajectoryObject> {
    return listPages(this.#connection, path`/v1/preview/models/${modelId}/trajectories`, query, options);
  }

  /** One trajectory with its content. */
  async retrieve(trajectoryId: string, options: CallOptions = {}): Promise<TrajectoryContent> {
    return await this.#connection.json('GET', path`/v1/preview/trajectories/${trajectoryId}`, options);
  }

  /** Its trained tokens, per gradient step that contained it. */
  async tokens(trajectoryId: string, options: CallOptions = {}): Promise<TrajectoryTokens> {
    return await this.#connection.json('GET', path`/v1/preview/trajectories/${trajectoryId}/tokens`, options);
  }
}
