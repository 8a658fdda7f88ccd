import { fileURLToPath } from 'node:url';

import type { ExportRequest, ExportResult, ImportedAdapter, ImportRequest } from '@trainyard/trainer';

import type { ComputeShares } from '../computing/compute-arbiter.ts';
import { TransferError } from './transfer-error.ts';
import { ComputingHost } from '../process/computing-host.ts';
import type {
  TransferHostCommand,
  TransferHostMessage,
  TransferHostOptions,
  HostFailure,
} from '../process/messages.ts';

/** Writes and reads adapters and models in public formats. */
export interface TransferBackend {
  /** @throws {TransferError} with a trainer code; the signal's reason if it aborts */
  exportCheckpoint(request: ExportRequest, options: { signal: AbortSignal }): Promise<ExportResult>;
  /** @throws as `exportCheckpoint` */
  importAdapter(request: ImportRequest, options: { signal: AbortSignal }): Promise<ImportedAdapter>;
}

/** Runs each transfer in its own child process, which has ended when the promise settles. */
export class EmbeddedTransfers implements TransferBackend {
  readonly #options: {
    host: TransferHostOptions;
    arbiter: ComputeShares;
    share: number;
    niceness: number;
    log: (line: string) => void;
  };

  constructor(options: {
    host: TransferHostOptions;
    arbiter: ComputeShares;
    share: number;
    niceness: number;
    log: (line: string) => void;
  }) {
    this.#options = options;
  }

  async exportCheckpoint(request: ExportRequest, options: { signal: AbortSignal }): Promise<ExportResult> {
    const message = await this.#run({ kind: 'export-checkpoint', request }, options.signal);
    if (message.kind === 'exported') return message.result;
    throw new Error(`an export ended with ${message.kind}`);
  }

  async importAdapter(request: ImportRequest, options: { signal: AbortSignal }): Promise<ImportedAdapter> {
    const message = await this.#run({ kind: 'import-adapter', request }, options.signal);
    if (message.kind === 'imported') return message.adapter;
    throw new Error(`an import ended with ${message.kind}`);
  }

  async #run(command: TransferHostCommand, signal: AbortSignal): Promise<TransferHostMessage> {
    signal.throwIfAborted();
    const { host: hostOptions, arbiter, share, niceness, log } = this.#options;
    const settled = Promise.withResolvers<TransferHostMessage>();
    const { host } = new ComputingHost<TransferHostCommand, TransferHostMessage>({
      name: 'transfer',
      modulePath: fileURLToPath(new URL('./transfer-host.ts', import.meta.url)),
      options: hostOptions,
      onMessage: (message) => {
        if (message.kind === 'transfer-failed') settled.reject(new TransferError(message.failure));
        else if (message.kind === 'exported' || message.kind === 'imported') settled.resolve(message);
      },
      onLost: (reason) => settled.reject(new TransferError(hostLost(reason))),
      log,
      arbiter,
      share,
      niceness,
    });
    const abort = () => settled.reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    // It may reject while the host still starts; it is awaited below.
    settled.promise.catch(() => undefined);
    try {
      // A host that ends before it is ready is lost like any other.
      await host.start().catch(() => settled.promise);
      host.send(command);
      return await settled.promise;
    } finally {
      signal.removeEventListener('abort', abort);
      await host.close();
    }
  }
}

function hostLost(reason: string): HostFailure {
  return { code: 'trainer.host_lost', message: `its process stopped: ${reason}` };
}
