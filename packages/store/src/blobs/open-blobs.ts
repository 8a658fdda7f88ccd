import type { BlobLocation, Blobs } from '../contract/blobs.ts';
import { StoreError } from '../contract/errors.ts';
import { FolderBlobs } from './folder-blobs.ts';
import { S3Blobs } from './s3/s3-blobs.ts';
import type { BucketRequest, S3Credentials } from './s3/s3-bucket.ts';

/** Environment variables with the credentials of a bucket, as all S3 clients name them. */
export const BUCKET_KEY_VARIABLES = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'] as const;

/**
 * @param environment source of a bucket's credentials
 * @param options `cacheKeepsMs`: validity of paths of a bucket's files, default an hour. `onRequest`:
 *   receives each request to a bucket. `onRepair`: receives a line per damaged copy in a bucket's cache
 * @throws {StoreError} `store.unavailable`
 */
export async function openBlobs(
  location: BlobLocation,
  environment: Readonly<Record<string, string | undefined>> = process.env,
  options: {
    readonly cacheKeepsMs?: number;
    readonly onRequest?: (request: BucketRequest) => void;
    readonly onRepair?: (line: string) => void;
  } = {},
): Promise<Blobs> {
  if (location.kind === 'folder') return await FolderBlobs.open(location.root);
  return await S3Blobs.open(location, bucketKey(environment), options);
}

/** @throws {StoreError} `store.unavailable` if it is missing */
export function bucketKey(environment: Readonly<Record<string, string | undefined>>): S3Credentials {
  const [accessKeyId, secretAccessKey, sessionToken] = BUCKET_KEY_VARIABLES.map((name) => environment[name] ?? '');
  if (!accessKeyId || !secretAccessKey)
    throw new StoreError(
      'store.unavailable',
      'the credentials of the bucket are missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
    );
  return { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) };
}
