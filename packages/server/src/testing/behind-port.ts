import type { Feed, Member, Members } from '@trainyard/store';

import type { InferenceBackend } from '../seams/contract/backends.ts';
import { RemoteEngines } from '../cluster/pool/remote-engines.ts';
import type { EngineTimes } from '../cluster/pool/engine-link.ts';
import { EnginePort, type EnginePortOptions } from '../cluster/port/engine-port.ts';
import { EngineSecret } from '../cluster/wire/engine-secret.ts';
import { RequestCapacity } from '../hosts/pool/request-capacity.ts';

/** True if the sampler in tests is accessed over a port, as on another machine. */
export const IS_BEHIND_PORT = process.env['TRAINYARD_TEST_ENGINE'] === 'port';

export const TEST_SECRET = new EngineSecret('a secret of tests that has more than 32 characters');

export function engineMember(url: string, member: Partial<Member> = {}): Member {
  return {
    id: url,
    role: 'engine',
    url,
    version: '0.0.0',
    startedAt: 0,
    leaseExpiresAt: 0,
    baseModels: [],
    capacity: null,
    adapterDigests: [],
    isDraining: false,
    machineTrouble: null,
    ...member,
  };
}

/** Registered engines, instead of a table. */
export class MemberList {
  #members: readonly Member[];
  #wake: () => void = () => undefined;
  readonly members: Pick<Members, 'list'> = { list: async () => [...this.#members] };
  readonly feed: Pick<Feed, 'watch'> = {
    watch: (wake) => {
      this.#wake = wake;
      return () => undefined;
    },
  };

  constructor(members: readonly Member[]) {
    this.#members = members;
  }

  set(members: readonly Member[]): void {
    this.#members = members;
    this.#wake();
  }
}

/** Adapters of a model that reads no files: directory keys serve as paths. */
const NO_FILES: EnginePortOptions['adapters'] = {
  find: async (request) => {
    const { adapter } = request;
    return adapter === null ? request : { ...request, adapter: { ...adapter, path: adapter.directoryKey } };
  },
  locate: async (adapter) => ({ ...adapter, path: adapter.directoryKey }),
  retire: () => undefined,
};

/** Opens a loopback port to that back end. */
export async function openPort(
  inference: InferenceBackend,
  options: Partial<Pick<EnginePortOptions, 'adapters' | 'secret' | 'log' | 'port' | 'url' | 'headMs' | 'tracing'>> = {},
): Promise<{ port: EnginePort; url: string }> {
  const {
    adapters = NO_FILES,
    secret = TEST_SECRET,
    port: number = 0,
    log = () => undefined,
    tracing = null,
    url = null,
    ...others
  } = options;
  const own = { adapters, secret, host: '127.0.0.1', port: number, url, tracing, log, ...others };
  const port = await EnginePort.listen({ inference, ...own });
  return { port, url: port.url };
}

/** The same back end, accessed over its own port. */
export async function behindPort(
  inference: InferenceBackend,
): Promise<{ inference: InferenceBackend; close: () => Promise<void> }> {
  const { port, url } = await openPort(inference);
  const engines = await openEngines(new MemberList([engineMember(url)]));
  return {
    inference: engines,
    close: async () => {
      await engines.close();
      await port.close();
    },
  };
}

/** The calling side, started. */
export async function openEngines(
  store: MemberList,
  options: {
    secret?: EngineSecret;
    maxRequests?: number;
    times?: EngineTimes;
    defaultModel?: string | null;
    log?: (line: string) => void;
  } = {},
): Promise<RemoteEngines> {
  const { secret = TEST_SECRET, maxRequests = 10_000, defaultModel = null, log = () => undefined, ...others } = options;
  const engines = new RemoteEngines({
    store,
    secret,
    capacity: new RequestCapacity(maxRequests),
    defaultModel,
    log,
    ...others,
  });
  await engines.start();
  return engines;
}
