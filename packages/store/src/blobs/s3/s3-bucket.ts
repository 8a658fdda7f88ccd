import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { AwsClient } from 'aws4fetch';
import { StoreError } from '../../contract/errors.ts';
import { writeWhole } from '../durable-file.ts';
import { childrenOf, textOf } from './s3-xml.ts';

export interface S3BucketOptions {
  /** `https://HOST[:PORT]/BUCKET[/PREFIX]`; names of objects start with the prefix */
  readonly url: string;
  readonly region: string;
  readonly credentials: S3Credentials;
  /** Receives each finished request. Default: none. */
  readonly onRequest?: (request: BucketRequest) => void;
  /**
   * Maximum bytes per copy within the bucket; larger objects are copied in parts of that size. Default: 4
   * GiB, as S3 allows 5 GB.
   */
  readonly copyBytes?: number;
}

/** One request to the bucket, for monitoring. */
export interface BucketRequest {
  readonly method: string;
  /** `ok`, the status of a refusal, or `unreachable`. */
  readonly outcome: string;
  /** True for a retry. */
  readonly isRetry: boolean;
  readonly bytesSent: number;
  /** Bytes of the response by its Content-Length; 0 without one. */
  readonly bytesReceived: number;
}

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface S3Object {
  readonly sizeBytes: number;
  readonly etag: string;
  /** Hexadecimal, as recorded by the writer; null if this class did not write it. */
  readonly sha256: string | null;
}

export interface S3Entry {
  readonly name: string;
  readonly modifiedAt: Date;
}

/**
 * Bytes per request. Larger objects are uploaded in parts and downloaded in ranges. S3's minimum part is 5
 * MiB.
 */
const PART_BYTES = 8 * 2 ** 20;
const PARTS_AT_ONCE = 4;
const SHA256_HEADER = 'x-amz-meta-sha256';
/**
 * Attempts of a request after a transient fault: a server that is busy or stops, a connection that breaks.
 * Pauses of 0.1 s, 0.2 s, … 1.6 s, plus up to as much again at random.
 */
const MAX_TRIES = 6;
const FIRST_PAUSE_MS = 100;
/** A request carries at most 8 MiB: below 70 kB/s it counts as hanging. */
const REQUEST_TIMEOUT_MS = 120_000;

/**
 * Objects of a bucket over the S3 interface: signed by aws4fetch, every body with its SHA-256, transient
 * faults retried.
 *
 * @throws {StoreError} `store.unavailable` with the server's message, from every method; aborts unchanged
 */
export class S3Bucket {
  readonly #client: AwsClient;
  readonly #url: string;
  readonly #prefix: string;
  readonly #name: string;
  readonly #onRequest: (request: BucketRequest) => void;
  readonly #copyBytes: number;
  /** Server time, ms since the epoch, at a time of `performance.now()`; null before its first response. */
  #clock: { readonly serverMs: number; readonly at: number } | null = null;

  constructor({ url, region, credentials, onRequest = () => undefined, copyBytes = 4 * 2 ** 30 }: S3BucketOptions) {
    this.#onRequest = onRequest;
    this.#copyBytes = copyBytes;
    const { origin, pathname } = new URL(url);
    const [bucket = '', ...rest] = pathname.split('/').filter((part) => part !== '');
    this.#url = `${origin}/${bucket}`;
    this.#prefix = rest.map((part) => `${decodeURIComponent(part)}/`).join('');
    this.#name = bucket;
    this.#client = new AwsClient({ ...credentials, region, service: 's3', retries: 0 });
  }

  /**
   * Milliseconds since the epoch on the server's clock by its last response, or on this machine's clock if no
   * response had a date.
   */
  get now(): number {
    return this.#clock === null ? Date.now() : this.#clock.serverMs + performance.now() - this.#clock.at;
  }

  /** @throws {StoreError} `store.unavailable` if the bucket does not exist or refuses the key */
  async check(): Promise<void> {
    await this.#send({ method: 'GET', name: null, query: 'list-type=2&max-keys=1' });
  }

  /** Returns null if there is none. */
  async head(name: string): Promise<S3Object | null> {
    const response = await this.#send({ method: 'HEAD', name, also: [404] });
    if (response.status === 404) return null;
    const { headers } = response;
    return {
      sizeBytes: Number(headers.get('content-length')),
      etag: headers.get('etag') ?? '',
      sha256: headers.get(SHA256_HEADER),
    };
  }

  /** Reads a small object whole. Returns null if there is none. */
  async get(name: string): Promise<Buffer | null> {
    return await this.#body({ method: 'GET', name, also: [404] });
  }

  /** @returns false if `isNew` is set and the name is taken */
  async put(
    name: string,
    bytes: Uint8Array,
    options: { isNew?: boolean; signal?: AbortSignal } = {},
  ): Promise<boolean> {
    const { isNew = false, signal } = options;
    const headers = { [SHA256_HEADER]: sha256Of(bytes), ...(isNew ? { 'if-none-match': '*' } : {}) };
    // 409: another write of this object is in progress.
    const also = isNew ? [409, 412] : [];
    const { status } = await this.#send({ method: 'PUT', name, bytes, headers, also, signal });
    return status === 200;
  }

  /** Uploads a local file. The object appears once it is complete. */
  async putFile(
    name: string,
    path: string,
    { sizeBytes, sha256 }: { sizeBytes: number; sha256: string },
    signal?: AbortSignal,
  ) {
    await using file = await open(path, 'r');
    const read = async (start: number): Promise<Buffer> => {
      const bytes = Buffer.allocUnsafe(Math.min(PART_BYTES, sizeBytes - start));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
      if (bytesRead !== bytes.length) throw new Error(`${path} was truncated during the upload`);
      return bytes;
    };
    const headers = { [SHA256_HEADER]: sha256 };
    if (sizeBytes <= PART_BYTES) {
      await this.#send({ method: 'PUT', name, bytes: await read(0), headers, signal });
      return;
    }
    const object = { name, sizeBytes, sha256, partBytes: PART_BYTES };
    await this.#putMultipart(object, signal, async (query, start) => {
      const part = { method: 'PUT', name, query, bytes: await read(start), signal };
      return (await this.#send(part)).headers.get('etag') ?? '';
    });
  }

  /**
   * Renames an object by a copy within the bucket. A failure leaves it under the first name, or under both.
   * @returns false if there is none
   */
  async move(from: string, to: string): Promise<boolean> {
    const isThere = await this.copy(from, to);
    if (isThere) await this.delete(from);
    return isThere;
  }

  /**
   * Copies an object within the bucket.
   * @returns false if there is none
   */
  async copy(from: string, to: string): Promise<boolean> {
    const object = await this.head(from);
    if (object === null) return false;
    const { sizeBytes, sha256 } = object;
    const source = { 'x-amz-copy-source': `/${this.#name}/${encodeURI(`${this.#prefix}${from}`)}` };
    if (sizeBytes <= this.#copyBytes) {
      // Like the end of a multipart upload, a copy can fail after a 200.
      const copied = String(await this.#body({ method: 'PUT', name: to, headers: source }));
      if (textOf(copied, 'ETag') === null) throw this.#fault('PUT', to, textOf(copied, 'Message') ?? 'did not copy it');
    } else {
      const partBytes = this.#copyBytes;
      await this.#putMultipart({ name: to, sizeBytes, sha256, partBytes }, undefined, async (query, start) => {
        const range = `bytes=${start}-${Math.min(sizeBytes, start + partBytes) - 1}`;
        const headers = { ...source, 'x-amz-copy-source-range': range };
        return textOf(String(await this.#body({ method: 'PUT', name: to, query, headers })), 'ETag') ?? '';
      });
    }
    return true;
  }

  /** @param putPart sends the part at that offset, and returns its ETag */
  async #putMultipart(
    {
      name,
      sizeBytes,
      sha256,
      partBytes,
    }: { name: string; sizeBytes: number; sha256: string | null; partBytes: number },
    signal: AbortSignal | undefined,
    putPart: (query: string, start: number) => Promise<string>,
  ): Promise<void> {
    const headers = sha256 === null ? {} : { [SHA256_HEADER]: sha256 };
    const started = await this.#body({ method: 'POST', name, query: 'uploads=', headers, signal });
    const uploadId = textOf(String(started), 'UploadId');
    if (uploadId === null) throw this.#fault('POST', name, 'returned no upload id');
    const upload = `uploadId=${encodeURIComponent(uploadId)}`;
    try {
      const starts = Array.from({ length: Math.ceil(sizeBytes / partBytes) }, (_, i) => i * partBytes);
      const etags = await inParallel(starts, (start, i) => putPart(`partNumber=${i + 1}&${upload}`, start));
      const parts = etags.map((etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
      const bytes = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
      // This request, too, can fail after a 200. If it is retried after it succeeded, the upload is gone;
      // then the object is checked.
      const completed = await this.#body({ method: 'POST', name, query: upload, bytes, also: [404], signal });
      const isThere = completed !== null && textOf(String(completed), 'ETag') !== null;
      if (!isThere && (await this.head(name))?.sha256 !== sha256)
        throw this.#fault('POST', name, textOf(String(completed), 'Message') ?? 'did not complete the upload');
    } catch (error) {
      await this.#send({ method: 'DELETE', name, query: upload, also: [404] }).catch(() => {});
      throw error;
    }
  }

  /**
   * Writes an object to a new local file.
   *
   * @param seen result of a recent `head`. Default: it is requested
   * @returns size and SHA-256 of the received bytes; null if there is no such object
   * @throws {StoreError} `store.blob_corrupt` if they differ from the object that was put
   */
  async download(name: string, path: string, seen?: S3Object): Promise<{ sizeBytes: number; sha256: string } | null> {
    for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
      const object = attempt === 0 && seen !== undefined ? seen : await this.head(name);
      if (object === null) return null;
      const { sizeBytes, etag } = object;
      await using file = await open(path, 'w', 0o600);
      const hash = createHash('sha256');
      let at = 0;
      while (at < sizeBytes) {
        const range = `bytes=${at}-${Math.min(sizeBytes, at + PART_BYTES) - 1}`;
        // All ranges must be of one object, which may be replaced at any time.
        const bytes = await this.#body({ method: 'GET', name, headers: { range, 'if-match': etag }, also: [404, 412] });
        if (bytes === null || bytes.length === 0) break;
        hash.update(bytes);
        await writeWhole(file, bytes);
        at += bytes.length;
      }
      if (at < sizeBytes) continue;
      const sha256 = hash.digest('hex');
      if (at === sizeBytes && (object.sha256 === null || object.sha256 === sha256)) return { sizeBytes, sha256 };
      throw new StoreError('store.blob_corrupt', `${this.#place(name)} is corrupt: its SHA-256 does not match`);
    }
    throw this.#fault('GET', name, 'returned a different object on every attempt');
  }

  async delete(name: string): Promise<void> {
    await this.#send({ method: 'DELETE', name, also: [404] });
  }

  /** Every object whose name starts with the prefix. */
  async *list(prefix: string): AsyncGenerator<S3Entry> {
    let token: string | null = null;
    do {
      const query = new URLSearchParams({ 'list-type': '2', prefix: `${this.#prefix}${prefix}` });
      if (token !== null) query.set('continuation-token', token);
      const page = String(
        await this.#body({ method: 'GET', name: null, query: query.toString().replaceAll('+', '%20') }),
      );
      for (const entry of childrenOf(page, 'Contents')) {
        const key = textOf(entry, 'Key') ?? '';
        const modifiedAt = new Date(textOf(entry, 'LastModified') ?? 0);
        yield { name: key.slice(this.#prefix.length), modifiedAt };
      }
      token = textOf(page, 'IsTruncated') === 'true' ? textOf(page, 'NextContinuationToken') : null;
    } while (token !== null);
  }

  /**
   * Returns the response body; null for the statuses of `also`. A connection that breaks within it is a
   * transient fault.
   */
  async #body(request: S3Request): Promise<Buffer | null> {
    return await this.#tried(request, async (response) => {
      const bytes = Buffer.from(await response.arrayBuffer());
      return response.ok ? bytes : null;
    });
  }

  async #send(request: S3Request): Promise<Response> {
    return await this.#tried(request, async (response) => {
      await response.arrayBuffer();
      return response;
    });
  }

  async #tried<Result>(request: S3Request, read: (response: Response) => Promise<Result>): Promise<Result> {
    const { method, name, query, bytes, headers, also = [], signal } = request;
    const object = name === null ? '' : `/${encodeURI(`${this.#prefix}${name}`)}`;
    const url = `${this.#url}${object}${query === undefined ? '' : `?${query}`}`;
    const signed = { ...headers, 'x-amz-content-sha256': bytes === undefined ? EMPTY_SHA256 : sha256Of(bytes) };
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      let problem: string;
      let isTold = false;
      const report = (outcome: string, response: Response | null) => {
        // The request of a body that breaks off has been reported already.
        if (isTold) return;
        isTold = true;
        const bytesReceived = method === 'HEAD' ? 0 : Number(response?.headers.get('content-length') ?? 0);
        this.#onRequest({ method, outcome, isRetry: attempt > 1, bytesSent: bytes?.length ?? 0, bytesReceived });
      };
      try {
        // Signed again, because a signature expires after some minutes.
        const prepared = await this.#client.sign(url, { method, headers: signed, ...(bytes ? { body: bytes } : {}) });
        const limit = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
        const response = await fetch(prepared, { signal: signal ? AbortSignal.any([signal, limit]) : limit });
        const serverMs = Date.parse(response.headers.get('date') ?? '');
        if (!Number.isNaN(serverMs)) this.#clock = { serverMs, at: performance.now() };
        const isAnswer = response.ok || also.includes(response.status);
        report(isAnswer ? 'ok' : String(response.status), response);
        if (isAnswer) return await read(response);
        problem = `answered ${response.status} ${faultOf(await response.text())}`.trimEnd();
        if (response.status < 500 && response.status !== 429) throw this.#fault(method, name, problem);
      } catch (error) {
        if (error instanceof StoreError || signal?.aborted === true) throw error;
        report('unreachable', null);
        const reason = reasonOf(error);
        if (/certificate/i.test(reason)) throw this.#fault(method, name, `${UNTRUSTED} (${reason})`);
        problem = `is unreachable (${reason})`;
      }
      if (attempt === MAX_TRIES) throw this.#fault(method, name, `${problem} (${MAX_TRIES} attempts)`);
      await delay(FIRST_PAUSE_MS * 2 ** (attempt - 1) * (1 + Math.random()), undefined, signal ? { signal } : {});
    }
  }

  #fault(method: string, name: string | null, problem: string): StoreError {
    return new StoreError('store.unavailable', `${method} of ${this.#place(name)}: the bucket ${problem}`);
  }

  #place(name: string | null): string {
    return `${this.#name}/${this.#prefix}${name ?? ''}`;
  }
}

interface S3Request {
  readonly method: string;
  /** Null for the bucket itself. */
  readonly name: string | null;
  readonly query?: string;
  readonly bytes?: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  /** Statuses other than success that are returned instead of thrown. */
  readonly also?: readonly number[];
  readonly signal?: AbortSignal | undefined;
}

/** Faults that a retry does not change. */
const UNTRUSTED =
  'has an untrusted certificate. It must match this address, be currently valid, and come from a certificate authority known to Node.js (add one with `NODE_EXTRA_CA_CERTS=FILE`)';

const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const EMPTY_SHA256 = sha256Of(Buffer.alloc(0));

function faultOf(body: string): string {
  const [code, message] = [textOf(body, 'Code'), textOf(body, 'Message')];
  return [code, message].filter((text) => text !== null).join(': ');
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message || error.message : error.message;
}

/**
 * Results in the order of the items, with a few items in progress at a time. Rejects with the first failure
 * once all started work has ended.
 */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = Array.from({ length: items.length });
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++;
      try {
        results[index] = await work(items[index]!, index);
      } catch (error) {
        next = items.length;
        throw error;
      }
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: PARTS_AT_ONCE }, lane));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return results;
}
