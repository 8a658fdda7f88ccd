import { createHash } from 'node:crypto';

import { BUCKET_KEY_VARIABLES } from '@trainyard/store';

import type { Faults } from './faults.ts';
import { beginPromptCrypto, endPromptCrypto } from './prompt-crypto.ts';
import { SimulatedProcess } from './simulated-process.ts';
import type { VirtualTime } from './virtual-time.ts';

interface StubObject {
  readonly bytes: Buffer;
  readonly etag: string;
  readonly sha256: string | null;
  readonly modifiedAt: number;
}

const ORIGIN = 'http://bucket.invalid';
const SHA256_HEADER = 'x-amz-meta-sha256';
const realFetch = globalThis.fetch;

/**
 * Objects of one bucket, in memory, for this thread's `fetch`: all requests of `S3Bucket` except multipart
 * uploads, which are for objects of more than 8 MiB. `npm run lab -- s3` tests the same class on a real server.
 */
export class StubBucket {
  readonly url = `${ORIGIN}/bucket`;
  readonly #objects = new Map<string, StubObject>();
  readonly #faults: Faults;
  readonly #time: VirtualTime;

  constructor(faults: Faults, time: VirtualTime) {
    this.#faults = faults;
    this.#time = time;
  }

  begin(): void {
    // It accepts any key.
    for (const name of BUCKET_KEY_VARIABLES.slice(0, 2)) process.env[name] ??= 'a key of these schedules';
    beginPromptCrypto();
    globalThis.fetch = async (input, init) => await this.#fetch(input as Request, init?.signal ?? null);
  }

  end(): void {
    globalThis.fetch = realFetch;
    endPromptCrypto();
  }

  async #fetch(request: Request, signal: AbortSignal | null): Promise<Response> {
    const sender = SimulatedProcess.current;
    const body = Buffer.from(await request.arrayBuffer());
    if (sender === undefined) return this.#answer(request, body);
    const after = await this.#faults.before(sender);
    const fault = this.#faults.ofBucket(sender);
    if (fault === 'slow') await this.#time.sleep(this.#faults.delayMs(sender));
    if (signal?.aborted === true) throw signal.reason;
    if (fault === 'refused') throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') });
    if (fault === 'busy') return new Response('<Error><Code>SlowDown</Code></Error>', { status: 503 });
    const response = this.#answer(request, body);
    await after();
    if (fault === 'lost') throw new TypeError('fetch failed', { cause: new Error('read ECONNRESET') });
    if (fault !== 'broken') return response;
    const { status, headers } = response;
    const broken = new ReadableStream({ start: (stream) => stream.error(new TypeError('terminated')) });
    return new Response(broken, { status: status === 204 ? 200 : status, headers });
  }

  #answer(request: Request, body: Buffer): Response {
    const { pathname, searchParams } = new URL(request.url);
    const name = decodeURIComponent(pathname).replace(/^\/bucket\/?/, '');
    const { method, headers } = request;
    if (name === '') return this.#list(searchParams.get('prefix') ?? '');
    if (searchParams.size > 0) return new Response(null, { status: 501 });
    const object = this.#objects.get(name);
    const source = headers.get('x-amz-copy-source');
    switch (method) {
      case 'PUT':
        if (source !== null) return this.#copy(decodeURIComponent(source).replace(/^\/bucket\//, ''), name);
        if (headers.get('if-none-match') === '*' && object !== undefined) return new Response(null, { status: 412 });
        return this.#put(name, body, headers);
      case 'DELETE':
        this.#objects.delete(name);
        return new Response(null, { status: 204 });
      case 'HEAD':
      case 'GET':
        if (object === undefined) return new Response(null, { status: 404 });
        return read(object, method, headers);
      default:
        return new Response(null, { status: 405 });
    }
  }

  #put(name: string, bytes: Buffer, headers: Headers): Response {
    const digest = createHash('sha256').update(bytes).digest('hex');
    if (headers.get('x-amz-content-sha256') !== digest) return new Response(null, { status: 400 });
    const object = {
      bytes,
      etag: `"${digest.slice(0, 32)}"`,
      sha256: headers.get(SHA256_HEADER),
      modifiedAt: this.#time.date,
    };
    this.#objects.set(name, object);
    return new Response(null, { status: 200, headers: { etag: object.etag } });
  }

  #copy(from: string, to: string): Response {
    const object = this.#objects.get(from);
    if (object === undefined) return new Response(null, { status: 404 });
    this.#objects.set(to, { ...object, modifiedAt: this.#time.date });
    return new Response(`<CopyObjectResult><ETag>${object.etag}</ETag></CopyObjectResult>`);
  }

  #list(prefix: string): Response {
    const entries = [...this.#objects]
      .filter(([name]) => name.startsWith(prefix))
      .toSorted(([first], [second]) => (first < second ? -1 : 1))
      .map(([name, { modifiedAt }]) => {
        const at = new Date(modifiedAt).toISOString();
        return `<Contents><Key>${name}</Key><LastModified>${at}</LastModified></Contents>`;
      });
    return new Response(`<ListBucketResult><IsTruncated>false</IsTruncated>${entries.join('')}</ListBucketResult>`);
  }
}

function read({ bytes, etag, sha256 }: StubObject, method: string, asked: Headers): Response {
  const wanted = asked.get('if-match');
  if (wanted !== null && wanted !== etag) return new Response(null, { status: 412 });
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(asked.get('range') ?? '') ?? [];
  const part = first === undefined ? bytes : bytes.subarray(Number(first), Number(last) + 1);
  const headers = {
    etag,
    'content-length': String(part.length),
    ...(sha256 === null ? {} : { [SHA256_HEADER]: sha256 }),
  };
  return new Response(method === 'HEAD' ? null : new Uint8Array(part), {
    status: first === undefined ? 200 : 206,
    headers,
  });
}
