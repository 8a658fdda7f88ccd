import Type, { type Static } from 'typebox';
import { LoraModuleFields } from './lora.ts';
import { listPageSchema, NamedStepSchema, nullable, optionalNullable } from '../shape/schema.ts';

/** Exports of checkpoints, and imports of adapters trained elsewhere. */

const ExportFormatSchema = Type.Enum(['peft', 'gguf-adapter', 'merged-gguf', 'merged-safetensors'], {
  description:
    '`peft`: the adapter for Python PEFT. `gguf-adapter`: the adapter for llama.cpp. `merged-gguf`: a whole model for llama.cpp. `merged-safetensors`: a whole model for transformers.',
});
export type ExportFormat = Static<typeof ExportFormatSchema>;

const ExportDtypeSchema = Type.Enum(['f16', 'f32'], { description: 'Element type of the weights.' });
export type ExportDtype = Static<typeof ExportDtypeSchema>;

/** POST /preview/models/{model_id}/exports. */
export const CreateExportRequestSchema = Type.Object(
  {
    step: Type.Optional(
      Type.Union([NamedStepSchema, Type.Null()], {
        description: 'Step of the checkpoint. Null or missing: the latest.',
      }),
    ),
    format: ExportFormatSchema,
    dtype: Type.Optional(
      Type.Union([ExportDtypeSchema, Type.Null()], {
        description: 'Element type of merged weights, default `f16`. Adapters are always `f32`.',
      }),
    ),
  },
  { title: 'CreateExportRequest', additionalProperties: false },
);
export type CreateExportRequest = Static<typeof CreateExportRequestSchema>;

const ExportFileSchema = Type.Object(
  {
    name: Type.String(),
    size_bytes: Type.Integer({ minimum: 0 }),
    sha256: Type.String({ description: 'SHA-256 of the file, hex. Also sent as the `ETag` of the download.' }),
  },
  { title: 'ExportFile' },
);

const ParityReportSchema = Type.Object(
  {
    num_tokens: Type.Integer({
      description: 'Number of tokens of a fixed text whose log-probabilities were compared.',
    }),
    mean_abs_difference: Type.Number({
      description: 'Mean |Δlogprob| in nats between the exported files and the trainer.',
    }),
    max_abs_difference: Type.Number({ description: 'Largest |Δlogprob|.' }),
    computed_by: Type.Enum(['llama.cpp', 'trainer'], {
      description: 'Program that ran the exported files: llama.cpp, or the trainer on the files read back.',
    }),
    adapter_effect: Type.Number({
      description:
        'Mean |Δlogprob| between base model and checkpoint on the same tokens, for comparison with the differences.',
    }),
  },
  { title: 'ParityReport', description: 'Agreement between the exported files and the trainer.' },
);
export type ParityReportObject = Static<typeof ParityReportSchema>;

export const ExportSchema = Type.Object(
  {
    id: Type.String(),
    model_id: Type.String(),
    step: Type.Integer({ minimum: 0 }),
    format: ExportFormatSchema,
    dtype: ExportDtypeSchema,
    status: Type.Enum(['queued', 'running', 'succeeded', 'failed'], { description: 'The last two values are final.' }),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    finished_at: nullable(Type.Integer(), { description: 'Unix seconds; null before the end.' }),
    source_digest: nullable(Type.String(), {
      description: 'sha256 of the weights and scale of the exported adapter; null for a model that was never trained.',
    }),
    files: Type.Array(ExportFileSchema, { description: 'Empty until the export succeeds.' }),
    parity: nullable(ParityReportSchema, { description: 'Null until the export succeeds.' }),
    error_message: nullable(Type.String(), { description: 'Reason of the failure, ending with a code.' }),
  },
  { title: 'Export' },
);
export type ExportObject = Static<typeof ExportSchema>;
export const ExportPageSchema = listPageSchema('ExportPage', ExportSchema);

export const DeletedSchema = Type.Object(
  { id: Type.String(), deleted: Type.Literal(true) },
  { title: 'Deleted', description: 'The export was deleted with its files.' },
);
export type DeletedObject = Static<typeof DeletedSchema>;

/** POST /preview/adapters. */
export const CreateAdapterRequestSchema = Type.Object(
  {
    base_model: optionalNullable(
      Type.String({
        minLength: 1,
        description: 'Base model that the adapter was trained on. Default: the served base model.',
      }),
    ),
  },
  { title: 'CreateAdapterRequest', additionalProperties: false },
);
export type CreateAdapterRequest = Static<typeof CreateAdapterRequestSchema>;

/** The two files of a PEFT adapter, with their maximum sizes in bytes. */
export const ADAPTER_FILES = {
  'adapter_config.json': 262_144,
  'adapter_model.safetensors': 536_870_912,
} as const;
export type AdapterFileName = keyof typeof ADAPTER_FILES;

export const AdapterSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String({
      description:
        '`adapter:` followed by the id. Once ready, use it as `model` of requests and as `init_from` of a new model.',
    }),
    base_model: Type.String(),
    status: Type.Enum(['uploading', 'ready'], { description: '`ready` once it is committed.' }),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    lora: nullable(
      Type.Object({
        rank: Type.Integer({ minimum: 1 }),
        alpha: Type.Number(),
        targets: Type.Array(Type.String(), { description: 'The adapted linear layers, in every block.' }),
        ...LoraModuleFields,
      }),
      { description: 'Shape of the adapter; null until it is committed.' },
    ),
    digest: nullable(Type.String(), {
      description: 'sha256 of its weights and scale as stored, in float32; null until it is committed.',
    }),
  },
  { title: 'Adapter' },
);
export type AdapterObject = Static<typeof AdapterSchema>;
export const AdapterPageSchema = listPageSchema('AdapterPage', AdapterSchema);

/** PUT /preview/adapters/{adapter_id}/files/{name}. */
export const AdapterFileSchema = Type.Object(
  { adapter_id: Type.String(), name: Type.String(), size_bytes: Type.Integer({ minimum: 0 }) },
  { title: 'AdapterFile' },
);
export type AdapterFileObject = Static<typeof AdapterFileSchema>;
