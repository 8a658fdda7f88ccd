import type {
  ArtifactObject,
  DeleteArtifactResponse,
  PageQuery,
  UploadArtifactQuery,
  WireSftLine,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';
import { path } from '../http/query.ts';

/** Path of the uploads of one name. */
export interface ArtifactPath {
  /** entity of the key */
  readonly entity: string;
  readonly project: string;
  readonly name: string;
}

/** Training files of conversations. */
export class Artifacts {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Uploads conversations: JSON lines, or values that become lines.
   *
   * @returns the new version; pass its `url` as `training_data_url` of a supervised job
   */
  async upload(
    artifact: ArtifactPath,
    data: string | Blob | readonly WireSftLine[],
    query: UploadArtifactQuery = {},
    options: CallOptions = {},
  ): Promise<ArtifactObject> {
    const content =
      typeof data === 'string' || data instanceof Blob
        ? data
        : data.map((line) => `${JSON.stringify(line)}\n`).join('');
    const upload = { content, mediaType: 'application/jsonl' };
    return await this.#connection.json('POST', artifactPath(artifact), { ...options, query, upload });
  }

  /** Every version of every upload, oldest first. */
  list(query: PageQuery = {}, options: CallOptions = {}): PagePromise<ArtifactObject> {
    return listPages(this.#connection, '/v1/preview/artifacts', query, options);
  }

  /** Versions of one name, oldest first. */
  versions(artifact: ArtifactPath, query: PageQuery = {}, options: CallOptions = {}): PagePromise<ArtifactObject> {
    return listPages(this.#connection, artifactPath(artifact), query, options);
  }

  /** @param version `v0`, `v1`, … or `latest` */
  async retrieve(artifact: ArtifactPath, version: string, options: CallOptions = {}): Promise<ArtifactObject> {
    return await this.#connection.json('GET', artifactPath(artifact) + path`/${version}`, options);
  }

  /** Deletes a version; jobs created from it keep their copy. */
  async delete(artifact: ArtifactPath, version: string, options: CallOptions = {}): Promise<DeleteArtifactResponse> {
    return await this.#connection.json('DELETE', artifactPath(artifact) + path`/${version}`, options);
  }
}

const artifactPath = ({ entity, project, name }: ArtifactPath) =>
  path`/v1/preview/artifacts/${entity}/${project}/${name}`;
