import Type, { type Static } from 'typebox';
import { listPageSchema } from '../shape/schema.ts';

/**
 * Training data uploaded by clients: one file of JSON lines by entity, project and name; each upload is a
 * version.
 */
export const ArtifactSchema = Type.Object(
  {
    id: Type.String({ description: 'Id of this version.' }),
    entity: Type.String(),
    project: Type.String(),
    name: Type.String(),
    version: Type.String({ description: '`v0`, `v1`, …; numbers are never reused.' }),
    url: Type.String({ description: 'Value for `training_data_url` of a job.' }),
    file_name: Type.String({ description: 'File name of the upload.' }),
    size_bytes: Type.Integer({ minimum: 0, description: 'Size of the uploaded file.' }),
    num_lines: Type.Integer({ minimum: 1, description: 'Number of conversations; blank lines are not counted.' }),
    digest: Type.String({ description: 'SHA-256 of the uploaded file, hex.' }),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
  },
  { title: 'Artifact' },
);
export type ArtifactObject = Static<typeof ArtifactSchema>;
export const ArtifactPageSchema = listPageSchema('ArtifactPage', ArtifactSchema);

export const DeleteArtifactResponseSchema = Type.Object(
  { id: Type.String(), version: Type.String({ description: 'The deleted version.' }) },
  { title: 'DeleteArtifactResponse' },
);
export type DeleteArtifactResponse = Static<typeof DeleteArtifactResponseSchema>;

export const UploadArtifactQuerySchema = Type.Object({
  file_name: Type.Optional(
    Type.String({
      pattern: '^(?:[^/\\\\\\u0000-\\u001f\\u007f\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff]){1,120}\\.jsonl$',
      description: 'Name of the file, ending in `.jsonl`. Default `train.jsonl`.',
    }),
  ),
});
export type UploadArtifactQuery = Static<typeof UploadArtifactQuerySchema>;

/** Media types accepted for an upload; all are read as JSON lines in UTF-8. */
export const JSON_LINES_MEDIA_TYPES = [
  'application/jsonl',
  'application/x-ndjson',
  'application/octet-stream',
  'text/plain',
] as const;
