import type { BlobLocation, Blobs } from '../contract/blobs.ts';
import { StoreError } from '../contract/errors.ts';
import { FolderBlobs } from './folder-blobs.ts';
import { S3Blobs } from './s3/s3-blobs.ts';
import type { BucketRequest, S3Credentials } from './s3/s3-bucket.ts';

/** Variables with the key of a bucket, as every client of S3 knows them. */
export const BUCKET_KEY_VARIABLES = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'] as const;

/**
 * @param environment where the key of a bucket is read
 * @param options `cacheKeepsMs`: how long paths of a bucket's files are valid; default an hour. `onRequest`: told of each request to a bucket. `onRepair`: told of
 *   each damaged copy in the cache of a bucket
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

/** @throws {StoreError} `store.unavailable` when it is missing */
export function bucketKey(environment: Readonly<Record<string, string | undefined>>): S3Credentials {
  const [accessKeyId, secretAccessKey, sessionToken] = BUCKET_KEY_VARIABLES.map((name) => environment[name] ?? '');
  if (!accessKeyId || !secretAccessKey)
    throw new StoreError(
      'store.unavailable',
      'the key of the bucket is missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
    );
  return { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) };
}
