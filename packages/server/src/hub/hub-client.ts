import { HubError } from '../seams/faults/hub-error.ts';
import type { HubSettings } from './hub-settings.ts';
import type { ModelReference } from './model-reference.ts';
import { readRepositoryInfo, type RepositoryInfo } from './repository-info.ts';

/** Time limit of one answer's first byte. */
const ANSWER_MS = 15_000;
const MAX_REDIRECTS = 5;
/** Time limit of the information about a repository. */
const INFO_MS = 60_000;
/** The information of 100,000 files has half as much. */
const MAX_INFO_BYTES = 32 << 20;

export type RepositoryRevision = Pick<ModelReference, 'repository' | 'revision'>;

/** Requests to a Hugging Face hub. The token is sent to the hub's own address only, not after a redirect elsewhere. */
export class HubClient {
  readonly #settings: HubSettings;

  constructor(settings: HubSettings) {
    this.#settings = settings;
  }

  /** Files of a repository at a revision. @throws {HubError} */
  async info({ repository, revision }: RepositoryRevision, signal?: AbortSignal): Promise<RepositoryInfo> {
    const subject = `${repository}@${revision}`;
    const url = `${this.#settings.endpoint}/api/models/${repository}/revision/${encodeURIComponent(revision)}?blobs=true`;
    const late = AbortSignal.timeout(INFO_MS);
    const within = signal === undefined ? late : AbortSignal.any([signal, late]);
    const response = await this.#get(url, { subject: { repository, revision }, signal: within });
    const text = await readText(response, subject);
    signal?.throwIfAborted();
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      throw new HubError('hub.answer_invalid', `The hub's answer about ${subject} is refused: it is not JSON`);
    }
    return readRepositoryInfo(answer, subject);
  }

  /**
   * Opens a file, from a byte on.
   * @param at `revision` is a commit
   * @throws {HubError}
   */
  async open(
    at: RepositoryRevision & { readonly path: string },
    { from, signal }: { readonly from: number; readonly signal: AbortSignal },
  ): Promise<Response> {
    const path = at.path.split('/').map(encodeURIComponent).join('/');
    const url = `${this.#settings.endpoint}/${at.repository}/resolve/${at.revision}/${path}`;
    // Without a range of its own, a proxy may send compressed bytes.
    const headers = { 'accept-encoding': 'identity', ...(from > 0 && { range: `bytes=${from}-` }) };
    return await this.#get(url, { subject: at, headers, signal });
  }

  async #get(
    start: string,
    options: {
      readonly subject: RepositoryRevision & { readonly path?: string };
      readonly headers?: Readonly<Record<string, string>>;
      readonly signal: AbortSignal;
    },
  ): Promise<Response> {
    const { endpoint, token, isOffline } = this.#settings;
    if (isOffline)
      throw new HubError(
        'hub.unreachable',
        `HF_HUB_OFFLINE is set and ${options.subject.repository} is not complete in the cache: unset it, or download the model on another machine`,
      );
    let url = new URL(start);
    for (let numRedirects = 0; numRedirects <= MAX_REDIRECTS; numRedirects += 1) {
      const isHub = url.origin === new URL(endpoint).origin;
      const headers = {
        'user-agent': 'trainyard',
        ...options.headers,
        ...(isHub && token !== null && { authorization: `Bearer ${token}` }),
      };
      const response = await answerTo(url, headers, options.signal);
      if (response.status < 300 || response.status >= 400 || response.status === 304) {
        if (response.ok || response.status === 416) return response;
        await response.body?.cancel().catch(() => undefined);
        throw refusalOf(response, options.subject, { endpoint, hasToken: token !== null });
      }
      await response.body?.cancel().catch(() => undefined);
      url = redirectOf(response, url);
    }
    throw new HubError('hub.answer_invalid', `The hub at ${endpoint} redirected more than ${MAX_REDIRECTS} times`);
  }
}

/** @throws {HubError} `hub.unreachable`; the reason of an aborted signal */
async function answerTo(url: URL, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ANSWER_MS);
  try {
    return await fetch(url, {
      headers,
      redirect: 'manual',
      signal: AbortSignal.any([signal, late.signal]),
    });
  } catch (error) {
    signal.throwIfAborted();
    const reason = late.signal.aborted ? `no answer within ${ANSWER_MS / 1000} s` : causeOf(error);
    throw new HubError(
      'hub.unreachable',
      `${url.host} is not reachable (${reason}): check the network, or set HF_ENDPOINT to a mirror or HF_HUB_OFFLINE=1 to use the cache only`,
      { cause: error },
    );
  } finally {
    clearTimeout(timer);
  }
}

/** @throws {HubError} for an address that is no web address, or loses the encryption */
function redirectOf(response: Response, from: URL): URL {
  const location = response.headers.get('location') ?? '';
  const to = URL.canParse(location, from.href) ? new URL(location, from) : null;
  const isSafe = to !== null && (to.protocol === 'https:' || (to.protocol === 'http:' && from.protocol === 'http:'));
  if (to !== null && isSafe) return to;
  throw new HubError(
    'hub.answer_invalid',
    `${from.host} redirected to ${JSON.stringify(location.slice(0, 120))}, which is refused`,
  );
}

function refusalOf(
  response: Response,
  { repository, revision, path }: RepositoryRevision & { readonly path?: string },
  { endpoint, hasToken }: { readonly endpoint: string; readonly hasToken: boolean },
): HubError {
  const { status } = response;
  const code = response.headers.get('x-error-code');
  if (code === 'GatedRepo')
    return new HubError(
      'hub.access_denied',
      `Access to ${repository} is restricted: accept its terms at ${endpoint}/${repository}${hasToken ? ' with the account of the token' : ', then set HF_TOKEN to a token of that account'}`,
    );
  if (code === 'RevisionNotFound')
    return new HubError(
      'hub.not_found',
      `${repository} has no revision ${revision}: ${endpoint}/${repository}/tree/main lists its branches and tags`,
    );
  if (code === 'EntryNotFound')
    return new HubError('hub.not_found', `${repository}@${revision} has no file ${path ?? ''}`.trimEnd());
  if ((status === 401 || status === 403) && hasToken && code !== 'RepoNotFound')
    return new HubError(
      'hub.access_denied',
      `The hub refused the token (HTTP ${status}): set HF_TOKEN to a valid one with access to ${repository}`,
    );
  if (code === 'RepoNotFound' || status === 401 || status === 403 || status === 404)
    return new HubError(
      'hub.not_found',
      `${repository} does not exist at ${endpoint}, or it is private: check the name${hasToken ? ' and the access of the token' : ', or set HF_TOKEN for a private repository'}`,
    );
  return new HubError('hub.unreachable', `The hub at ${endpoint} failed (HTTP ${status}): retry later`);
}

/** @throws {HubError} for a body above the limit */
async function readText(response: Response, subject: string): Promise<string> {
  const pieces: Uint8Array[] = [];
  let numBytes = 0;
  try {
    for await (const piece of response.body ?? []) {
      numBytes += piece.length;
      if (numBytes > MAX_INFO_BYTES) {
        throw new HubError(
          'hub.answer_invalid',
          `The hub's answer about ${subject} is refused: it has more than ${MAX_INFO_BYTES} bytes`,
        );
      }
      pieces.push(piece);
    }
  } catch (error) {
    if (error instanceof HubError) throw error;
    throw new HubError('hub.unreachable', `The hub's answer about ${subject} broke off (${causeOf(error)}): retry`, {
      cause: error,
    });
  }
  return Buffer.concat(pieces).toString('utf8');
}

/** Short reason of a failed request: `ECONNREFUSED`. */
export function causeOf(error: unknown): string {
  const { cause, message } = error as Error;
  const { code } = (cause ?? error) as { code?: unknown };
  return typeof code === 'string' ? code : ((cause as Error | undefined)?.message ?? message);
}
