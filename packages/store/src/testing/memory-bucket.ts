import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface StoredObject {
  readonly bytes: Buffer;
  readonly sha256: string | undefined;
}

/**
 * A bucket in memory on the loopback interface, with the part of S3 that blobs use. It checks no signature:
 * the suite of blobs runs on a real S3 server, and this one is for tests of code that uses blobs.
 */
export class MemoryBucket {
  readonly objects = new Map<string, StoredObject>();
  readonly #uploads = new Map<string, { sha256: string | undefined; parts: Map<number, Buffer> }>();
  readonly #server: Server;

  static async start(): Promise<MemoryBucket> {
    const bucket = new MemoryBucket();
    bucket.#server.listen(0, '127.0.0.1');
    await once(bucket.#server, 'listening');
    return bucket;
  }

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Address of the only bucket. */
  get url(): string {
    return `http://127.0.0.1:${this.port}/bucket`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
    const body = Buffer.concat(pieces);
    const { pathname, searchParams: query } = new URL(request.url ?? '/', this.url);
    const name = decodeURIComponent(pathname.split('/').slice(2).join('/'));
    const end = (status: number, headers: Record<string, string> = {}, content: Buffer | string = '') =>
      void response.writeHead(status, headers).end(content);
    const sha256 = request.headers['x-amz-meta-sha256'] as string | undefined;
    const upload = this.#uploads.get(query.get('uploadId') ?? '');
    const source = request.headers['x-amz-copy-source'] as string | undefined;
    const copied = (from: string): void => {
      const object = this.objects.get(decodeURIComponent(from).split('/').slice(2).join('/'));
      if (object === undefined) return end(404);
      this.objects.set(name, object);
      return end(200, {}, `<CopyObjectResult><ETag>${etagOf(object.bytes)}</ETag></CopyObjectResult>`);
    };
    switch (request.method) {
      case 'PUT':
        if (source !== undefined) return copied(source);
        if (upload !== undefined) upload.parts.set(Number(query.get('partNumber')), body);
        else if (request.headers['if-none-match'] === '*' && this.objects.has(name)) return end(412);
        else this.objects.set(name, { bytes: body, sha256 });
        return end(200, { etag: etagOf(body) });
      case 'POST': {
        if (query.has('uploads')) {
          const id = String(this.#uploads.size + 1);
          this.#uploads.set(id, { sha256, parts: new Map() });
          return end(
            200,
            {},
            `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
          );
        }
        if (upload === undefined) return end(404);
        const whole = Buffer.concat([...upload.parts].sort(([a], [b]) => a - b).map(([, bytes]) => bytes));
        this.objects.set(name, { bytes: whole, sha256: upload.sha256 });
        return end(
          200,
          {},
          `<CompleteMultipartUploadResult><ETag>${etagOf(whole)}</ETag></CompleteMultipartUploadResult>`,
        );
      }
      case 'DELETE':
        this.objects.delete(name);
        return end(204);
      default:
        return name === '' ? end(200, {}, this.#listing(query.get('prefix') ?? '')) : this.#read(request, name, end);
    }
  }

  #read(
    { method, headers: { range } }: IncomingMessage,
    name: string,
    end: (status: number, headers?: Record<string, string>, content?: Buffer) => void,
  ): void {
    const found = this.objects.get(name);
    if (found === undefined) return end(404);
    const { bytes, sha256 } = found;
    const headers = { etag: etagOf(bytes), ...(sha256 === undefined ? {} : { 'x-amz-meta-sha256': sha256 }) };
    if (method === 'HEAD') return end(200, { ...headers, 'content-length': String(bytes.length) });
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? [];
    if (from === undefined) return end(200, headers, bytes);
    return end(206, headers, bytes.subarray(Number(from), Number(to) + 1));
  }

  #listing(prefix: string): string {
    const entries = [...this.objects.keys()]
      .filter((name) => name.startsWith(prefix))
      .map((name) => `<Contents><Key>${name}</Key><LastModified>${new Date().toISOString()}</LastModified></Contents>`);
    return `<ListBucketResult><IsTruncated>false</IsTruncated>${entries.join('')}</ListBucketResult>`;
  }
}

function etagOf(bytes: Buffer): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}
