import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';

import { DEFAULT_LORA_CONFIG, exportCheckpoint } from '@trainyard/trainer';

/**
 * Writes a model in Hugging Face's form, in single precision, if it is missing.
 * @param folder for this model only
 */
export async function ensureHuggingFaceModel(
  modelPath: string,
  baseModelId: string,
  folder: string,
  log: (line: string) => void,
): Promise<void> {
  if (existsSync(`${folder}/config.json`)) return;
  log(`writing ${folder}`);
  const outputDirectory = `${folder}.new`;
  rmSync(outputDirectory, { recursive: true, force: true });
  mkdirSync(outputDirectory, { recursive: true });
  await exportCheckpoint(
    {
      modelPath,
      baseModelId,
      lora: DEFAULT_LORA_CONFIG,
      checkpointDirectory: null,
      format: 'merged-safetensors',
      type: 'f32',
      outputDirectory,
    },
    { numThreads: 1 },
  );
  // SkyRL takes every file of the folder for part of the model.
  rmSync(`${outputDirectory}/parity.json`, { force: true });
  renameSync(outputDirectory, folder);
}
