import { createHash, randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  type ArtifactObject,
  type DeleteArtifactResponse,
  JSON_LINES_MEDIA_TYPES,
  type ListPage,
  type PageQuery,
  PageQuerySchema,
  type UploadArtifactQuery,
  UploadArtifactQuerySchema,
} from '@trainyard/protocol';
import type { Artifact, ArtifactName } from '@trainyard/store';

import { callerOf } from '../../edge/auth.ts';
import { answerOnce, answerUploadOnce, type Completes } from '../../answers/idempotency.ts';
import { toListPage } from '../../answers/paging.ts';
import { removeUnlessNamed } from '../../../seams/data/remove-unless-named.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import { requireName } from '../require-name.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { parseVersion, toArtifactObject } from '../../../training-data/sources/artifact-name.ts';
import { conversationLine } from '../../../training-data/stored/stored-line.ts';
import { readSftLines } from '../../../training-data/wire/sft-data.ts';
import { removeFiles } from '../files.ts';
import { notFound } from '../owned.ts';

interface NameParams {
  entity: string;
  project: string;
  name: string;
}
type VersionParams = NameParams & { version: string };
type UploadRequest = FastifyRequest<{
  Params: NameParams;
  Querystring: UploadArtifactQuery;
  Body: Readable | undefined;
}>;

/** /v1/preview/artifacts: files of conversations, by entity, project and name; each upload is a version. */
export function artifactRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { store, blobs } = parts;
  const root = '/v1/preview/artifacts';
  const ofName = `${root}/:entity/:project/:name`;
  const config = { scope: 'training' } as const;
  const schema = { querystring: PageQuerySchema };

  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // The file is checked and written while it is read.
    scope.addContentTypeParser(
      [...JSON_LINES_MEDIA_TYPES],
      async (_request: FastifyRequest, payload: Readable) => payload,
    );
    scope.post<{ Params: NameParams; Querystring: UploadArtifactQuery; Body: Readable | undefined }>(
      ofName,
      {
        config: { ...config, mediaTypes: JSON_LINES_MEDIA_TYPES },
        schema: { querystring: UploadArtifactQuerySchema },
        bodyLimit: parts.limits.previewBodyBytes,
      },
      upload,
    );
  });

  async function upload(request: UploadRequest, reply: FastifyReply): Promise<FastifyReply> {
    const name = ownName(request);
    for (const part of ['project', 'name'] as const) requireName(['path', part], name[part]);
    if (request.body === undefined)
      throw RequestError.invalid([{ loc: ['body'], msg: 'Field required', type: 'missing' }]);
    const body = parts.intake.open(request, request.body, { limit: request.routeOptions.bodyLimit, budget: null });
    return await answerUploadOnce(store, reply, body, (content, completes) =>
      keep({ ...name, fileName: request.query.file_name ?? 'train.jsonl' }, content, completes),
    );
  }

  async function keep(
    name: ArtifactName & { fileName: string },
    content: AsyncIterable<Buffer>,
    completes: Completes,
  ): Promise<ArtifactObject> {
    const blobKey = `artifacts/${randomUUID()}`;
    const file = new MeasuredFile(content);
    try {
      await store.files.announce(blobKey);
      await blobs.putJsonLines(blobKey, file.lines());
      if (file.numLines === 0)
        throw RequestError.invalid([
          { loc: ['body'], msg: 'File should have at least one conversation', type: 'too_short' },
        ]);
      const { artifact, isNew } = await store.artifacts.add({
        ...name,
        blobKey,
        digest: file.digest(),
        sizeBytes: file.sizeBytes,
        numLines: file.numLines,
        completes: (result) => completes(toArtifactObject(result.artifact)),
      });
      if (!isNew) await blobs.remove(blobKey);
      return toArtifactObject(artifact);
    } catch (error) {
      await removeUnlessNamed(parts, { key: blobKey, kind: 'blob' }, error);
      throw error;
    }
  }

  app.get<{ Querystring: PageQuery }>(root, { config, schema }, async (request): Promise<ListPage<ArtifactObject>> => {
    const { entityId } = callerOf(request);
    return toListPage(await store.artifacts.list({ ...request.query, entityId }), toArtifactObject);
  });

  app.get<{ Params: NameParams; Querystring: PageQuery }>(
    ofName,
    { config, schema },
    async (request): Promise<ListPage<ArtifactObject>> =>
      toListPage(await store.artifacts.list({ ...request.query, ...ownName(request) }), toArtifactObject),
  );

  app.get<{ Params: VersionParams }>(`${ofName}/:version`, { config }, async (request) =>
    toArtifactObject(await ownArtifact(request)),
  );

  app.delete<{ Params: VersionParams }>(`${ofName}/:version`, { config }, (request, reply) =>
    answerOnce(store, request, reply, async (completes): Promise<DeleteArtifactResponse> => {
      const artifact = await ownArtifact(request);
      const answer: DeleteArtifactResponse = { id: artifact.id, version: `v${artifact.version}` };
      if (!(await store.artifacts.delete(artifact.id, completes(answer)))) throw unknownArtifact(request.params);
      await removeFiles(parts, { blobKeys: [artifact.blobKey] });
      return answer;
    }),
  );

  /** @throws {RequestError} the same `request.not_found` for an unknown version and for another entity's */
  async function ownArtifact(request: FastifyRequest<{ Params: VersionParams }>): Promise<Artifact> {
    const version = parseVersion(request.params.version);
    const artifact = version === null ? null : await store.artifacts.find(ownName(request), version);
    if (artifact === null) throw unknownArtifact(request.params);
    return artifact;
  }
}

/** An incoming file: counted and hashed as sent, while its lines are checked. */
class MeasuredFile {
  readonly #chunks: AsyncIterable<Uint8Array>;
  readonly #hash = createHash('sha256');
  sizeBytes = 0;
  numLines = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks;
  }

  /** @throws {RequestError} as `readSftLines` */
  async *lines(): AsyncGenerator<unknown> {
    for await (const line of readSftLines(this.#measured(), ['body'])) {
      this.numLines += 1;
      yield conversationLine(line);
    }
  }

  /** SHA-256, hex, after everything was read. */
  digest(): string {
    return this.#hash.digest('hex');
  }

  async *#measured(): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#chunks) {
      this.#hash.update(chunk);
      this.sizeBytes += chunk.length;
      yield chunk;
    }
  }
}

/** @throws {RequestError} `request.not_found` for another entity than the caller's */
function ownName(request: FastifyRequest<{ Params: NameParams }>): ArtifactName {
  const { entity, project, name } = request.params;
  const caller = callerOf(request);
  if (entity !== caller.entity) throw unknownArtifact(request.params);
  return { entityId: caller.entityId, project, name };
}

function unknownArtifact({ entity, project, name, version }: NameParams & { version?: string }): RequestError {
  return notFound('artifact', `${entity}/${project}/${name}${version === undefined ? '' : `:${version}`}`, 'name');
}
