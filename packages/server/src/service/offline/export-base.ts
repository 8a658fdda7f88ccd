import { mkdtempSync, rmSync } from 'node:fs';

import { copySource, DEFAULT_LORA_CONFIG, type ExportResult, modelCopy } from '@trainyard/trainer';

import { ComputeArbiter } from '../../hosts/computing/compute-arbiter.ts';
import { EmbeddedTransfers } from '../../hosts/transfers/embedded-transfers.ts';
import { modelFault } from '../settings/model-files.ts';

interface ExportCall {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

export interface BaseExport {
  /** GGUF file, or folder in the Hugging Face format */
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
 * @throws {TransferError} with a trainer code, such as `trainer.architecture_unsupported`; {ServerError}
 * `server.config_invalid` for a folder that is no usable model
 */
export async function exportBase(request: BaseExport, call: ExportCall): Promise<ExportResult> {
  const { modelPath, outputDirectory } = request;
  const source = copySource(modelPath, null);
  if (source === null) return await exportFile(request, call);
  const directory = mkdtempSync(`${outputDirectory}.source-`);
  try {
    const file = await modelCopy(source, { directory, signal: call.signal });
    return await exportFile({ ...request, modelPath: file }, call);
  } catch (error) {
    throw modelFault(modelPath, error);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function exportFile(
  { modelPath, name, format, dtype, outputDirectory, numThreads }: BaseExport,
  { signal, log }: ExportCall,
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
