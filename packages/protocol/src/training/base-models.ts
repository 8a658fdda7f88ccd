import Type, { type Static } from 'typebox';

import { nullable } from '../shape/schema.ts';

/** Base models of a hub that clients name: `/v1/preview/base-models`. */

export const FetchBaseModelRequestSchema = Type.Object(
  {
    base_model: Type.String({
      minLength: 1,
      maxLength: 300,
      description: '`ORG/NAME` or `ORG/NAME:QUANTISATION`, also with `@REVISION`.',
    }),
  },
  { title: 'FetchBaseModelRequest', additionalProperties: false },
);
export type FetchBaseModelRequest = Static<typeof FetchBaseModelRequestSchema>;

export const BaseModelObjectSchema = Type.Object(
  {
    id: Type.String({ description: 'Name in `base_model` and in `model`.' }),
    status: Type.Enum(['served', 'queued', 'running', 'opening', 'failed', 'cancelled'], {
      description:
        '`served`: it can be sampled from. `queued`, `running`: it is being fetched. `opening`: its files are being opened. A new request retries `failed` and `cancelled` ones.',
    }),
    job_id: nullable(Type.String(), { description: 'Newest job that fetched it; null for a model of the settings.' }),
    done_bytes: nullable(Type.Integer(), { description: 'Bytes that are here; null if unknown.' }),
    total_bytes: nullable(Type.Integer(), { description: 'Bytes of its files; null until they are known.' }),
    remaining_seconds: nullable(Type.Integer(), { description: 'Estimated time to the end; null if unknown.' }),
    error_message: nullable(Type.String(), { description: 'Reason why it failed or was cancelled.' }),
  },
  { title: 'BaseModelObject' },
);
export type BaseModelObject = Static<typeof BaseModelObjectSchema>;

export const BaseModelListSchema = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(BaseModelObjectSchema) },
  { title: 'BaseModelList' },
);
export type BaseModelList = Static<typeof BaseModelListSchema>;
