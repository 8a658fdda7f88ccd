import { type Blobs, type Caller, type Store, StoreError } from '@trainyard/store';

import { RequestError } from '../../seams/faults/request-error.ts';
import { parseArtifactUrl } from './artifact-name.ts';
import { openDataFile } from './data-file.ts';
import { readDataUrl } from './data-url.ts';

/** Fields that name data. */
export type DataField = 'training_data_url' | 'held_out_data_url';

export const placeOfData = (field: DataField): readonly string[] => ['body', field];

const FORMS =
  'URL should be `wandb-artifact:///ENTITY/PROJECT/NAME:vN` of an upload, `data:`, or `file:` if the service has a folder for it (`--training-data-dir`)';

interface TrainingDataParts {
  store: Pick<Store, 'artifacts'>;
  blobs: Blobs;
  /** Folder for the files of `file:` URLs; null: none. */
  trainingDataDirectory: string | null;
  /** Maximum bytes read from one file. */
  limits: { previewBodyBytes: number };
}

/**
 * Opens the data that a field of the request names, as bytes of JSON lines. Never fetches anything remote, and
 * reveals nothing about another entity's artifacts.
 * @throws {RequestError} `request.invalid` if it cannot be read
 */
export async function openTrainingData(
  { url, field }: { readonly url: string; readonly field: DataField },
  caller: Caller,
  parts: TrainingDataParts,
): Promise<AsyncIterable<Uint8Array> | Iterable<Uint8Array>> {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase();
  switch (scheme) {
    case 'wandb-artifact': {
      const name = parseArtifactUrl(url);
      if (name === null) throw fault(field, 'value_error', FORMS);
      const isOwn = name.entity === caller.entity;
      const identity = { entityId: caller.entityId, project: name.project, name: name.name };
      const artifact = isOwn ? await parts.store.artifacts.find(identity, name.version) : null;
      const missing = fault(field, 'not_found', `The artifact ${JSON.stringify(url.slice(0, 300))} does not exist`);
      if (artifact === null) throw missing;
      try {
        return await parts.blobs.openJsonLines(artifact.blobKey);
      } catch (error) {
        // Deleted since it was found.
        throw error instanceof StoreError && error.code === 'store.blob_missing' ? missing : error;
      }
    }
    case 'data': {
      const bytes = readDataUrl(url);
      if (typeof bytes === 'string') throw fault(field, 'value_error', bytes);
      return [bytes];
    }
    case 'file': {
      const { trainingDataDirectory } = parts;
      if (trainingDataDirectory === null)
        throw fault(field, 'not_supported', 'This service has no folder for `file:` URLs');
      const file = await openDataFile(url, trainingDataDirectory);
      if (file === null) throw fault(field, 'not_found', 'No such .jsonl file in the folder for `file:` URLs');
      return limited(file, parts.limits.previewBodyBytes, field);
    }
    default:
      throw fault(field, 'value_error', FORMS);
  }
}

async function* limited(
  chunks: AsyncIterable<Uint8Array>,
  limit: number,
  field: DataField,
): AsyncGenerator<Uint8Array> {
  let numBytes = 0;
  for await (const chunk of chunks) {
    numBytes += chunk.length;
    if (numBytes > limit) throw fault(field, 'too_long', `The file should have at most ${limit} bytes`);
    yield chunk;
  }
}

function fault(field: DataField, type: string, msg: string): RequestError {
  return RequestError.invalid([{ loc: [...placeOfData(field)], msg, type }]);
}
