import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';

import { type HubAccess, type HubFile, HubRepository } from './hub-repository.ts';

const PIECE_BYTES = 16_384;
const POINTER_BYTES = 134;

/** A request as the hub, or its storage of large files, received it. */
export interface HubRequest {
  readonly kind: 'info' | 'tree' | 'resolve' | 'storage' | 'other';
  readonly method: string;
  readonly path: string;
  readonly authorization: string | null;
  readonly range: string | null;
}

/** A fault of the hub, for one request. */
export type HubFault =
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  | { readonly kind: 'redirect'; readonly location: string }
  /** Closes the connection after these bytes of the body. */
  | { readonly kind: 'cut'; readonly afterBytes: number }
  /** Sends nothing after these bytes, and keeps the connection open. */
  | { readonly kind: 'stall'; readonly afterBytes: number }
  /** Sends this body instead, without a length. */
  | { readonly kind: 'body'; readonly bytes: Uint8Array }
  /** Sends bytes until the client leaves. */
  | { readonly kind: 'endless' };

interface FileInfo {
  rfilename: string;
  size: number;
  blobId: string;
  lfs?: { sha256: string; size: number; pointerSize: number };
}

/** Answer to the request for a repository's information. */
export interface HubInfo {
  id: string;
  sha: string;
  gated: false | 'manual';
  private: boolean;
  siblings: FileInfo[];
}

/**
 * A Hugging Face hub on this machine: information, trees and files of repositories, with the status codes and
 * headers of the real one. Large files are at a second origin, as on the real one.
 * `tests/clients/hugging-face-hub.test.ts` checks it with the Python client.
 */
export class LoopbackHub {
  readonly requests: HubRequest[] = [];
  /** Token that opens gated and private repositories. */
  readonly token = 'hf_loopback';
  /** Asked for every request; null: no fault. */
  fault: (request: HubRequest) => HubFault | null = () => null;
  /** Changes the information of a repository before it is sent. */
  editInfo: (info: HubInfo) => unknown = (info) => info;
  /** Pace of large files; null: as fast as possible. */
  bytesPerSecond: number | null = null;
  readonly #repositories = new Map<string, HubRepository>();
  readonly #hub = createServer((request, reply) => void this.#answer(request, reply, 'hub'));
  readonly #storage = createServer((request, reply) => void this.#answer(request, reply, 'storage'));
  #urls = { hub: '', storage: '' };

  static async open(): Promise<LoopbackHub> {
    const hub = new LoopbackHub();
    // Clients tell two origins by the host name.
    hub.#urls = { hub: await listen(hub.#hub, '127.0.0.1'), storage: await listen(hub.#storage, 'localhost') };
    return hub;
  }

  /** Endpoint, for `HF_ENDPOINT`. */
  get url(): string {
    return this.#urls.hub;
  }

  get storageUrl(): string {
    return this.#urls.storage;
  }

  add(id: string, files: Parameters<HubRepository['commit']>[0], access: HubAccess = 'public'): HubRepository {
    const repository = new HubRepository(id, access);
    repository.commit(files);
    this.#repositories.set(id, repository);
    return repository;
  }

  remove(id: string): void {
    this.#repositories.delete(id);
  }

  /** Bytes of large files that were requested with a GET, by range. */
  storageRequests(): HubRequest[] {
    return this.requests.filter(({ kind, method }) => kind === 'storage' && method === 'GET');
  }

  async close(): Promise<void> {
    for (const server of [this.#hub, this.#storage].filter(({ listening }) => listening)) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  async #answer(request: IncomingMessage, reply: ServerResponse, at: 'hub' | 'storage'): Promise<void> {
    const { pathname: path } = new URL(request.url ?? '/', 'http://hub');
    const kind = at === 'storage' ? 'storage' : kindOf(path);
    const { authorization = null, range = null } = request.headers;
    const seen = { kind, method: request.method ?? 'GET', path, authorization, range } as const;
    this.requests.push(seen);
    const fault = this.fault(seen);
    try {
      if (fault?.kind === 'status') reply.writeHead(fault.status, fault.headers).end();
      else if (fault?.kind === 'redirect') reply.writeHead(302, { location: fault.location }).end();
      else if (fault?.kind === 'body') reply.writeHead(200).end(fault.bytes);
      else if (fault?.kind === 'endless') await sendEndlessly(reply);
      else if (kind === 'storage') await this.#sendStored(seen, reply, fault);
      else await this.#sendOwn(seen, reply, fault);
    } catch {
      reply.destroy(); // the client left
    }
  }

  async #sendOwn(request: HubRequest, reply: ServerResponse, fault: HubFault | null): Promise<void> {
    const { id, revision, rest } = addressedBy(request);
    const { authorization } = request;
    if (authorization !== null && authorization !== `Bearer ${this.token}`)
      return refuse(reply, 401, null, 'Invalid credentials in Authorization header');
    const repository = this.#repositories.get(id);
    const isKnown = authorization !== null;
    if (repository === undefined || (repository.access === 'private' && !isKnown))
      return refuse(reply, isKnown ? 404 : 401, 'RepoNotFound', 'Repository not found');
    const commit = repository.commitOf(revision);
    if (commit === null) return refuse(reply, 404, 'RevisionNotFound', `Invalid rev id: ${revision}`);
    const files = repository.files(commit);
    if (request.kind === 'info') return sendJson(reply, this.editInfo(infoOf(repository, commit, files)));
    if (request.kind === 'tree') return sendJson(reply, treeOf(files, rest));
    if (repository.access === 'gated' && !isKnown)
      return refuse(reply, 401, 'GatedRepo', `Access to model ${id} is restricted`);
    const file = files.get(rest);
    if (file === undefined) return refuse(reply, 404, 'EntryNotFound', 'Entry not found');
    reply.setHeader('x-repo-commit', commit);
    if (file.sha256 === null) return await this.#send(file, request, reply, fault);
    const location = `${this.storageUrl}/${id}/${file.sha256}?signature=1`;
    const headers = { location, 'x-linked-etag': `"${file.sha256}"`, 'x-linked-size': String(file.bytes.length) };
    reply.writeHead(302, { ...headers, etag: `"${file.oid}"` }).end();
  }

  async #sendStored(request: HubRequest, reply: ServerResponse, fault: HubFault | null): Promise<void> {
    const [, id = '', sha256 = ''] = /^\/([^/]+\/[^/]+)\/([0-9a-f]{64})$/.exec(request.path) ?? [];
    // Signed addresses refuse a second way of signing in.
    if (request.authorization !== null) return refuse(reply, 400, null, 'Only one way of signing in is allowed');
    const file = this.#repositories.get(id)?.stored(sha256) ?? null;
    if (file === null) return refuse(reply, 403, null, 'Forbidden');
    await this.#send(file, request, reply, fault);
  }

  async #send(file: HubFile, request: HubRequest, reply: ServerResponse, fault: HubFault | null): Promise<void> {
    const { bytes, oid, sha256 } = file;
    const [, start = '0'] = /^bytes=(\d+)-$/.exec(request.range ?? '') ?? [];
    const from = Number(start);
    reply.setHeader('etag', `"${sha256 ?? oid}"`).setHeader('accept-ranges', 'bytes');
    if (from > 0 && from >= bytes.length) {
      reply.writeHead(416, { 'content-range': `bytes */${bytes.length}` }).end();
      return;
    }
    reply.setHeader('content-length', bytes.length - from);
    if (request.range === null) reply.writeHead(200);
    else reply.writeHead(206, { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` });
    if (request.method === 'HEAD') {
      reply.end();
      return;
    }
    await this.#sendBody(reply, bytes.subarray(from), { fault, isPaced: sha256 !== null });
  }

  async #sendBody(
    reply: ServerResponse,
    bytes: Buffer,
    { fault, isPaced }: { readonly fault: HubFault | null; readonly isPaced: boolean },
  ): Promise<void> {
    const end = fault?.kind === 'cut' || fault?.kind === 'stall' ? fault.afterBytes : bytes.length;
    for (let at = 0; at < end; at += PIECE_BYTES) {
      const piece = bytes.subarray(at, Math.min(at + PIECE_BYTES, end));
      if (!reply.write(piece)) await once(reply, 'drain');
      if (isPaced && this.bytesPerSecond !== null) await delay((piece.length / this.bytesPerSecond) * 1_000);
    }
    if (fault?.kind === 'stall') return;
    if (fault?.kind === 'cut') reply.socket?.end();
    else reply.end();
  }
}

/** @returns the origin */
async function listen(server: Server, host: string): Promise<string> {
  await once(server.listen(0, host), 'listening');
  return `http://${host}:${(server.address() as AddressInfo).port}`;
}

const API_PATH = /^\/api\/models\/([^/]+\/[^/]+)(?:\/(?:revision|tree)\/([^/]+)(?:\/(.*))?)?$/;
const FILE_PATH = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/;

function kindOf(path: string): HubRequest['kind'] {
  if (API_PATH.test(path)) return path.includes('/tree/') ? 'tree' : 'info';
  return FILE_PATH.test(path) ? 'resolve' : 'other';
}

interface Addressed {
  readonly id: string;
  readonly revision: string;
  /** Path of a file or folder in the repository. */
  readonly rest: string;
}

function addressedBy({ kind, path }: HubRequest): Addressed {
  const [, id = '', revision = 'main', rest = ''] = (kind === 'resolve' ? FILE_PATH : API_PATH).exec(path) ?? [];
  const [decodedRevision, decodedRest] = [revision, rest].map(decodeURIComponent) as [string, string];
  return { id, revision: decodedRevision, rest: decodedRest };
}

function infoOf({ id, access }: HubRepository, commit: string, files: ReadonlyMap<string, HubFile>): HubInfo {
  const siblings = Array.from(files.values(), ({ path, bytes, oid, sha256 }) => ({
    rfilename: path,
    size: bytes.length,
    blobId: oid,
    ...(sha256 === null ? {} : { lfs: { sha256, size: bytes.length, pointerSize: POINTER_BYTES } }),
  }));
  return { id, sha: commit, gated: access === 'gated' && 'manual', private: access === 'private', siblings };
}

function treeOf(files: ReadonlyMap<string, HubFile>, below: string): object[] {
  return [...files.values()]
    .filter(({ path }) => below === '' || path.startsWith(`${below}/`))
    .map(({ path, bytes, oid, sha256 }) => ({
      type: 'file',
      path,
      size: bytes.length,
      oid,
      ...(sha256 === null ? {} : { lfs: { oid: sha256, size: bytes.length, pointerSize: POINTER_BYTES } }),
    }));
}

function sendJson(reply: ServerResponse, body: unknown): void {
  reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function refuse(reply: ServerResponse, status: number, code: string | null, message: string): void {
  const headers = { ...(code && { 'x-error-code': code }), 'x-error-message': message };
  reply.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(JSON.stringify({ error: message }));
}

async function sendEndlessly(reply: ServerResponse): Promise<void> {
  const piece = Buffer.alloc(PIECE_BYTES, ' ');
  reply.writeHead(200);
  await pipeline(function* () {
    for (;;) yield piece;
  }, reply);
}
