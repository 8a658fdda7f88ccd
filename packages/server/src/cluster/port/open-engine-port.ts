import type { Blobs, Store } from '@trainyard/store';

import type { InferenceBackend } from '../../seams/contract/backends.ts';
import { isLoopbackName } from '../../seams/network/network-names.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { Tracing } from '../../seams/tracing/tracing.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import type { MachineProblem } from '../members/machine-problem.ts';
import { EngineSecret } from '../wire/engine-secret.ts';
import { AdapterFiles } from './adapter-files.ts';
import { EnginePort } from './engine-port.ts';
import { registerEngine } from './register-engine.ts';

/** Names that mean every address of a machine, and are unusable for others. */
const EVERY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

interface EnginePortSettings {
  readonly host: string;
  readonly port: number;
  /** address for others; null: derived from the listen address */
  readonly engineUrl: string | null;
  readonly engineSecret: string | null;
  readonly allowNetwork: 'on' | 'off';
  readonly maxRequests: number;
  readonly drainTimeoutMs: number;
}

interface EnginePortParts {
  readonly store: Store;
  readonly blobs: Blobs;
  /** started */
  readonly inference: InferenceBackend;
  readonly modelPaths: BaseModelPaths;
  readonly machine: MachineProblem & { readonly sawConnection: () => void };
  /** Default null: no tracing. */
  readonly tracing?: Tracing | null;
  readonly log: Log;
}

export interface OpenEnginePort {
  readonly url: string;
  /** Takes no more requests, lets current ones end, and removes its registration. */
  close(): Promise<void>;
}

/** @throws {ServerError} `server.config_invalid` for an address that others cannot or may not use */
export function refuseUnreachable({ host, engineUrl, allowNetwork }: EnginePortSettings): void {
  if (!isLoopbackName(host) && allowNetwork !== 'on')
    throw new ServerError(
      'server.config_invalid',
      `listening on ${host} sends prompts and replies unencrypted: pass --allow-network if the network is private, or keep 127.0.0.1, put a proxy with TLS in front and set --engine-url to its address`,
    );
  if (engineUrl === null && EVERY_ADDRESS.has(host))
    throw new ServerError(
      'server.config_invalid',
      `an engine on ${host} needs a URL that other processes can reach: set --engine-url, such as http://10.0.0.7:8420`,
    );
}

/**
 * Opens a port to the samplers of this process, and registers it.
 * @throws {ServerError} `server.port_in_use`, `server.config_invalid`; {StoreError}
 */
export async function openEnginePort(settings: EnginePortSettings, parts: EnginePortParts): Promise<OpenEnginePort> {
  const { host, engineUrl, engineSecret, maxRequests: capacity, drainTimeoutMs } = settings;
  if (engineSecret === null) throw new Error('an engine opens no port without a secret');
  refuseUnreachable(settings);
  const adapters = new AdapterFiles({ blobs: parts.blobs, format: parts.inference.adapterFormat, log: parts.log });
  const port = await EnginePort.listen({
    ...parts,
    adapters,
    sawConnection: parts.machine.sawConnection,
    secret: new EngineSecret(engineSecret),
    host,
    port: settings.port,
    url: engineUrl,
  });
  const { url } = port;
  try {
    const membership = await registerEngine({ ...parts, adapters, port, url, capacity });
    return {
      url,
      close: async () => {
        const drained = port.drain(drainTimeoutMs);
        await Promise.all([membership.report(), drained]);
        await membership.close();
        await port.close();
      },
    };
  } catch (error) {
    await port.close();
    throw error;
  }
}
