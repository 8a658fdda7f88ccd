import { type BackendMember, EngineError, HashRing } from '@trainyard/backend';
import { type FailureKind, ServerFailure } from '../wire/server-failure.ts';
import { UnusableServer } from '../server/server-facts.ts';
import type { ServerState, VllmServer } from '../server/vllm-server.ts';

export function memberOf(server: VllmServer): BackendMember {
  const { name, state, problem, facts, numChoices, kvUse, adapters, counts } = server;
  return {
    name,
    kind: 'vllm',
    state,
    trouble: problem,
    version: facts?.version ?? null,
    numChoices,
    kvUse,
    numAdapters: adapters.size,
    adapters: adapters.present,
    refused: adapters.refused,
    numRequests: counts.requests,
    numFailures: counts.failures,
    numLosses: counts.losses,
    numTokens: counts.tokens,
  };
}

/** Part of a request that selects its server and its adapter. */
export interface PoolRequest {
  readonly adapter: string | null;
  readonly numChoices: number;
}

/**
 * Work on one server. @param life aborted if the server is lost or silent, or the result is no longer needed
 */
export type PoolUse<Item> = (
  server: VllmServer,
  model: string,
  life: AbortSignal,
) => AsyncGenerator<Item, void, undefined>;

/** A request that breaks a server may break the next one too, so it is tried on at most two. */
const MAX_FAILURES = 2;
const BREAKING: ReadonlySet<FailureKind> = new Set(['lost', 'hangs', 'broken']);

/**
 * Servers of the same model. A request goes to the server of its key, and to another only before any output,
 * so nothing is sent twice.
 */
export class ServerPool {
  readonly servers: readonly VllmServer[];
  readonly #ring: HashRing<VllmServer>;

  constructor(servers: readonly VllmServer[]) {
    this.servers = servers;
    this.#ring = new HashRing(servers);
  }

  /** @throws {UnusableServer} if none is up, with the remedy for each */
  async start(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.start()));
    if (this.#up.length > 0) return;
    this.close();
    throw new UnusableServer(this.servers.map(({ problem }) => problem).join('; '));
  }

  close(): void {
    for (const server of this.servers) server.close();
  }

  /** Null while any of them accepts requests; includes one whose requests fail, if no other is left. */
  get problem(): string | null {
    return this.#inUse.length > 0 ? null : `none of ${this.servers.length} vLLM servers accepts requests; see the log`;
  }

  /**
   * Loads an adapter on every server that is up or, if none is, on those whose requests fail. An unreachable
   * one loads it with its first request.
   * @returns the reason why some of them refuse it; null if none does
   * @throws {EngineError} engine.adapter_unreadable if none has it, and one refused it; {ServerFailure} if
   *   none is reachable
   */
  async load(digest: string): Promise<string | null> {
    const loads = await Promise.allSettled(this.#inUse.map((server) => server.adapters.loadAhead(digest)));
    const reasons: unknown[] = loads.flatMap((load) => (load.status === 'rejected' ? [load.reason] : []));
    const refusals = reasons.filter((reason) => !(reason instanceof ServerFailure));
    if (reasons.length === loads.length)
      throw refusals[0] ?? reasons[0] ?? new ServerFailure('unreachable', 'no server is up');
    const [refusal] = refusals;
    if (refusal === undefined) return null;
    if (!isUnreadable(refusal)) throw refusal;
    return `${refusals.length} of ${this.servers.length} vLLM servers: ${refusal.message}`;
  }

  async unload(digest: string): Promise<void> {
    await Promise.all(this.servers.map((server) => server.adapters.unload(digest)));
  }

  /**
   * @param key equal for requests that should share a server
   * @throws {ServerFailure} if no server is left to try; {EngineError} engine.adapter_unreadable; errors of
   *   `use` after its first item
   */
  async *run<Item>(
    key: string,
    request: PoolRequest,
    ended: AbortSignal,
    use: PoolUse<Item>,
  ): AsyncGenerator<Item, void, undefined> {
    const tried = new Set<VllmServer>();
    let numFailures = 0;
    let last: ServerFailure | EngineError | null = null;
    for (;;) {
      ended.throwIfAborted();
      const server = this.#pick(key, request.numChoices, tried);
      if (server === null) throw last ?? this.#noneUp();
      tried.add(server);
      let hasBegun = false;
      try {
        for await (const item of runOn(server, request, ended, use)) {
          hasBegun = true;
          yield item;
        }
        server.succeed();
        return;
      } catch (error) {
        if (ended.aborted) throw error;
        // Another server may have an adapter that this one refuses.
        if (isUnreadable(error) && !hasBegun) {
          last = error;
          continue;
        }
        if (!(error instanceof ServerFailure)) throw error;
        if (error.kind === 'refused') throw error;
        server.suspect(error);
        if (BREAKING.has(error.kind)) numFailures++;
        if (hasBegun || numFailures >= MAX_FAILURES) throw error;
        last = error;
      }
    }
  }

  get #up(): readonly VllmServer[] {
    return this.servers.filter(({ state }) => state === 'up');
  }

  /** Servers that are up or, if there are none, those whose requests fail, in the order of {@link #pick}. */
  get #inUse(): readonly VllmServer[] {
    return this.#up.length > 0 ? this.#up : this.servers.filter(({ state }) => state === 'failing');
  }

  /**
   * Picks a server. One whose requests fail is tried only if no other is left: the breaker alone never
   * refuses.
   */
  #pick(key: string, numChoices: number, tried: ReadonlySet<VllmServer>): VllmServer | null {
    const pick = (wanted: ServerState): VllmServer | null =>
      this.#ring.pick(key, (one) => one.state === wanted && !tried.has(one), numChoices);
    return pick('up') ?? (tried.size === 0 ? pick('failing') : null);
  }

  #noneUp(): ServerFailure {
    const isDraining = this.servers.some(({ state }) => state === 'draining');
    return new ServerFailure(isDraining ? 'busy' : 'unreachable', 'no server accepts requests now');
  }
}

function isUnreadable(error: unknown): error is EngineError {
  return error instanceof EngineError && error.code === 'engine.adapter_unreadable';
}

async function* runOn<Item>(
  server: VllmServer,
  { adapter, numChoices }: PoolRequest,
  ended: AbortSignal,
  use: PoolUse<Item>,
): AsyncGenerator<Item, void, undefined> {
  const { facts } = server;
  if (facts === null) throw new ServerFailure('unreachable', `${server.name} has not been up`);
  server.numChoices += numChoices;
  server.counts.requests++;
  try {
    if (adapter === null) yield* watched(server, facts.model, ended, use);
    else yield* runOnAdapter(server, adapter, ended, use);
  } finally {
    server.numChoices -= numChoices;
  }
}

/** Runs on an adapter, and once more if a restarted server has lost it. */
async function* runOnAdapter<Item>(
  server: VllmServer,
  digest: string,
  ended: AbortSignal,
  use: PoolUse<Item>,
): AsyncGenerator<Item, void, undefined> {
  for (let isAgain = false; ; isAgain = true) {
    const release = await unlessAborted(server.adapters.hold(digest), ended);
    try {
      yield* watched(server, digest, ended, use);
      return;
    } catch (error) {
      if (!(error instanceof ServerFailure) || error.kind !== 'unknown_model') throw error;
      if (isAgain)
        throw new EngineError('engine.adapter_unreadable', `the vLLM server forgets the adapter ${digest}`, {
          cause: error,
        });
      server.adapters.forget(digest);
    } finally {
      release();
    }
  }
}

/** Ends work whose server is lost or silent for too long. */
async function* watched<Item>(
  server: VllmServer,
  model: string,
  ended: AbortSignal,
  use: PoolUse<Item>,
): AsyncGenerator<Item, void, undefined> {
  const stall = new AbortController();
  const { stallMs } = server.times;
  const hangs = (): void =>
    stall.abort(new ServerFailure('hangs', `${server.name} sent nothing for ${stallMs} ms during a request`));
  let unread: NodeJS.Immediate | undefined;
  // If this process itself was suspended, data that arrived meanwhile is read first.
  const wait = () => setTimeout(() => (unread = setImmediate(hangs)), stallMs);
  let timer = wait();
  try {
    for await (const item of use(server, model, AbortSignal.any([ended, server.life, stall.signal]))) {
      // A slow reader does not make a server silent.
      clearTimeout(timer);
      clearImmediate(unread);
      yield item;
      timer = wait();
    }
  } finally {
    clearTimeout(timer);
    clearImmediate(unread);
  }
}

async function unlessAborted(held: Promise<() => void>, ended: AbortSignal): Promise<() => void> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(ended.reason);
  ended.addEventListener('abort', abort, { once: true });
  if (ended.aborted) abort();
  try {
    return await Promise.race([held, aborted.promise]);
  } catch (error) {
    void held.then(
      (release) => release(),
      () => undefined,
    );
    throw error;
  } finally {
    ended.removeEventListener('abort', abort);
  }
}
