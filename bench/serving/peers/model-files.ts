import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join, resolve } from 'node:path';

import { quantizeModel } from '@trainyard/native';
import { DEFAULT_LORA_CONFIG, type ExportFormat, exportCheckpoint } from '@trainyard/trainer';

import { ensureHuggingFaceModel } from '../../../lab/hugging-face/model.ts';
import { defaultModelPath } from '../../../scripts/own-service.ts';
import type { Log } from './peer.ts';

export const ROOT = resolve(import.meta.dirname, '../../..');
/** Files of peers that are kept between runs. */
export const PEERS_FOLDER = join(ROOT, '.cache/peers');
const BASE_MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';

/** Types of llama.cpp's files that the bench compares. */
export type LlamaType = 'bf16' | 'q8_0';

/** The default model in Hugging Face's form, in single precision. @returns its folder */
export async function huggingFaceModel(log: Log): Promise<string> {
  const folder = join(PEERS_FOLDER, stem(), 'hugging-face');
  await ensureHuggingFaceModel(defaultModelPath(), BASE_MODEL, folder, log);
  return folder;
}

/** The default model, expanded and written in another type. @returns its GGUF file */
export function llamaModel(type: LlamaType, log: Log): string {
  const folder = join(PEERS_FOLDER, stem());
  const path = join(folder, `${type}.gguf`);
  if (existsSync(path)) return path;
  log(`writing ${path}`);
  mkdirSync(folder, { recursive: true });
  quantizeModel(defaultModelPath(), path, type, availableParallelism());
  return path;
}

/**
 * The adapter from which a first training job starts, r=8 on all linear layers: its cost is that of any other.
 * @returns its folder
 */
export async function newAdapter(format: Extract<ExportFormat, 'peft' | 'gguf-adapter'>, log: Log): Promise<string> {
  const folder = join(PEERS_FOLDER, stem(), format);
  if (existsSync(folder)) return folder;
  log(`writing ${folder}`);
  const outputDirectory = `${folder}.new`;
  rmSync(outputDirectory, { recursive: true, force: true });
  mkdirSync(outputDirectory, { recursive: true });
  const request = { modelPath: defaultModelPath(), baseModelId: BASE_MODEL, lora: DEFAULT_LORA_CONFIG };
  await exportCheckpoint(
    { ...request, checkpointDirectory: null, format, type: 'f32', outputDirectory },
    { numThreads: availableParallelism() },
  );
  renameSync(outputDirectory, folder);
  return folder;
}

function stem(): string {
  return basename(defaultModelPath(), '.gguf');
}
