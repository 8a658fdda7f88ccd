import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type CreateSftTrainingJobRequest,
  CreateSftTrainingJobRequestSchema,
  type TrainingExampleList,
  type TrainingExamplesQuery,
  TrainingExamplesQuerySchema,
  type TrainingJobObject,
} from '@trainyard/protocol';
import { StoreError } from '@trainyard/store';
import { heldOutLines } from '@trainyard/trainer';

import { callerOf } from '../../edge/auth.ts';
import { answerOnce, type Completes } from '../../answers/idempotency.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { type DataField, openTrainingData, placeOfData } from '../../../training-data/sources/open-training-data.ts';
import { fitSftConfig, readSftConfig, type SftSource, shownUrl } from '../../../training-data/wire/sft-config.ts';
import { conversationLine } from '../../../training-data/stored/stored-line.ts';
import { readSftLines } from '../../../training-data/wire/sft-data.ts';
import { ownedJob } from '../owned.ts';
import { baseOf, submitJob, trainableModel, UNKNOWN_LIMIT } from './submit-job.ts';

/** Default of `limit`. */
const MAX_SHOWN_EXAMPLES = 3;

/** POST /v1/preview/sft-training-jobs, GET /v1/preview/training-jobs/{job_id}/examples. */
export function sftJobRoutes(app: FastifyInstance, parts: RouteParts): void {
  app.post<{ Body: CreateSftTrainingJobRequest }>(
    '/v1/preview/sft-training-jobs',
    { config: { scope: 'training', submits: true }, schema: { body: CreateSftTrainingJobRequestSchema } },
    (request, reply) =>
      answerOnce(parts.store, request, reply, (completes) => createJob(request, request.body, completes)),
  );

  app.get<{ Params: { job_id: string }; Querystring: TrainingExamplesQuery }>(
    '/v1/preview/training-jobs/:job_id/examples',
    { config: { scope: 'training' }, schema: { querystring: TrainingExamplesQuerySchema } },
    async (request): Promise<TrainingExampleList> => {
      const job = await ownedJob(request, parts, request.params.job_id);
      const { limit = MAX_SHOWN_EXAMPLES } = request.query;
      const isKept = job.kind === 'sft' && job.dataRemovedAt === null;
      const { numLines = Infinity } = (job.config['source'] ?? {}) as Partial<SftSource>;
      // Held-out data of their own follow the training data.
      return { object: 'list', data: isKept ? await firstExamples(job.dataKey, Math.min(limit, numLines)) : [] };
    },
  );

  async function firstExamples(dataKey: string, limit: number): Promise<TrainingExampleList['data']> {
    const examples: TrainingExampleList['data'] = [];
    try {
      for await (const line of parts.blobs.getJsonLines(dataKey)) {
        examples.push(line as TrainingExampleList['data'][number]);
        if (examples.length === limit) break;
      }
    } catch (error) {
      // Removed during the read.
      if (!(error instanceof StoreError && error.code === 'store.blob_missing')) throw error;
    }
    return examples;
  }

  async function createJob(
    request: FastifyRequest,
    body: CreateSftTrainingJobRequest,
    completes: Completes,
  ): Promise<TrainingJobObject> {
    const { model } = await trainableModel(request, parts, body.model_id);
    const config = readSftConfig(body, baseOf(model, parts)?.contextLength ?? UNKNOWN_LIMIT);
    const { heldOutFraction } = config.resolved;
    const heldOutUrl = body.held_out_data_url ?? null;
    if (heldOutUrl !== null && heldOutFraction !== null) throw TWO_HELD_OUT;
    const dataOf = (field: DataField, url: string) =>
      new CheckedData({ url, field }, () => openTrainingData({ url, field }, callerOf(request), parts));
    const training = dataOf('training_data_url', body.training_data_url);
    const heldOut = heldOutUrl === null ? null : dataOf('held_out_data_url', heldOutUrl);
    const store = async (dataKey: string) => {
      const all = async function* () {
        yield* training.lines(Infinity);
        if (heldOut !== null) yield* heldOut.lines(config.resolved.heldOutExamples);
      };
      await parts.blobs.putJsonLines(dataKey, all());
      const { numLines } = training;
      const drawn = heldOutLines(numLines, config.resolved).size;
      const source: SftSource = {
        url: training.shownUrl,
        numLines,
        ...(drawn === 0 ? {} : { heldOut: { url: null, numLines: drawn, numUsed: drawn } }),
        ...(heldOut === null
          ? {}
          : { heldOut: { url: heldOut.shownUrl, numLines: heldOut.numLines, numUsed: heldOut.numUsed } }),
      };
      return { settings: { ...fitSftConfig(config, numLines - drawn), source } };
    };
    return await submitJob(request, parts, { model, kind: 'sft', dataPrefix: 'sft', store }, completes);
  }
}

const TWO_HELD_OUT = RequestError.invalid([
  {
    loc: ['body', 'held_out_data_url'],
    msg: 'Send either `held_out_data_url` or `held_out_fraction`, not both',
    type: 'value_error',
  },
]);

type Data = Parameters<typeof readSftLines>[0];

/** Conversations of one source, checked and counted as they are read. */
class CheckedData {
  /** Its URL without secrets. */
  readonly shownUrl: string;
  /** All conversations, and those that were passed on. */
  numLines = 0;
  numUsed = 0;
  readonly #open: () => Promise<Data>;
  readonly #place: readonly string[];

  /** @param open called by `lines`: opened data must be read, or its file stays open */
  constructor({ url, field }: { readonly url: string; readonly field: DataField }, open: () => Promise<Data>) {
    this.shownUrl = shownUrl(url);
    this.#open = open;
    this.#place = placeOfData(field);
  }

  /** Yields the first `limit` conversations, and checks all. @throws {RequestError} `request.invalid` */
  async *lines(limit: number): AsyncGenerator<object> {
    for await (const line of readSftLines(await this.#open(), this.#place)) {
      this.numLines += 1;
      if (this.numLines > limit) continue;
      this.numUsed += 1;
      yield conversationLine(line);
    }
    if (this.numLines > 0) return;
    const msg = 'Data should have at least one conversation';
    throw RequestError.invalid([{ loc: [...this.#place], msg, type: 'too_short' }]);
  }
}
