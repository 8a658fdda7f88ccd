import { DEFAULT_LORA_CONFIG, type ExportResult } from '@trainyard/trainer';

import { ComputeArbiter } from '../../hosts/computing/compute-arbiter.ts';
import { EmbeddedTransfers } from '../../hosts/transfers/embedded-transfers.ts';

export interface BaseExport {
  readonly modelPath: string;
  readonly name: string;
  readonly format: 'merged-gguf' | 'merged-safetensors';
  readonly dtype: 'f16' | 'f32';
  /** Empty folder; after a failure its content is unusable. */
  readonly outputDirectory: string;
  readonly numThreads: number;
}

/**
 * Writes a base model in another format, without a service, and compares the written model with the file.
 * @throws {TransferError} with a trainer code, such as `trainer.architecture_unsupported`
 */
export async function exportBase(
  { modelPath, name, format, dtype, outputDirectory, numThreads }: BaseExport,
  { signal, log }: { readonly signal: AbortSignal; readonly log: (line: string) => void },
): Promise<ExportResult> {
  const transfers = new EmbeddedTransfers({
    host: { numThreads },
    arbiter: new ComputeArbiter(),
    share: 1,
    niceness: 0,
    log,
  });
  const request = {
    modelPath,
    baseModelId: name,
    lora: DEFAULT_LORA_CONFIG,
    checkpointDirectory: null,
    format,
    type: dtype,
    outputDirectory,
  };
  return await transfers.exportCheckpoint(request, { signal });
}
