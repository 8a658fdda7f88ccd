import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { importAdapter, type LoraConfig, otherShapes, TrainerError } from '@trainyard/trainer';

import { wireFault } from '../wire/wire-fault.ts';
import type { PeftFiles } from './adapter-archive.ts';

export interface IntakeRequest {
  readonly files: PeftFiles;
  readonly lora: LoraConfig;
  readonly metrics: Readonly<Record<string, number>>;
  /** Must exist and be empty. */
  readonly outputDirectory: string;
}

/** Converts an adapter's files to a version here. @returns sha256 of its weights and scale, hex */
export type AdapterIntake = (request: IntakeRequest) => string;

/**
 * Checks each adapter against the model's file, tensor by tensor, and writes it for PEFT and for llama.cpp.
 *
 * @param modelPath GGUF file of the base model
 */
export function intakeFor(modelPath: string): AdapterIntake {
  return ({ files, lora, metrics, outputDirectory }) => {
    const scratch = mkdtempSync(join(tmpdir(), 'trainyard-adapter-'));
    try {
      const weightsPath = join(scratch, 'adapter_model.safetensors');
      writeFileSync(weightsPath, files.weights, { mode: 0o600 });
      const config = namedModules(files.config, lora);
      const { digest, lora: found } = importAdapter({ modelPath, config, weightsPath, outputDirectory, metrics });
      requireShape(found, lora);
      return digest;
    } catch (cause) {
      if (!(cause instanceof TrainerError) || cause.code !== 'trainer.adapter_invalid') throw cause;
      throw new TrainerError(
        'trainer.remote_differs',
        `the adapter from the Tinker server does not fit the base model of this service: ${cause.message}. Check --trainer-model`,
        { cause },
      );
    } finally {
      rmSync(scratch, { recursive: true });
    }
  };
}

/** Adds the layers of the requested adapter if the server's configuration omits them. */
function namedModules(text: string, { targets }: LoraConfig): string {
  let config: Record<string, unknown>;
  try {
    config = JSON.parse(text) as Record<string, unknown>;
  } catch (cause) {
    throw wireFault('an adapter configuration is not JSON', cause);
  }
  const modules = config['target_modules'] ?? targets.map((layer) => `${layer}_proj`);
  return JSON.stringify({ ...config, target_modules: modules });
}

function requireShape(found: LoraConfig, wanted: LoraConfig): void {
  const shapeOf = (lora: LoraConfig): string =>
    [`rank ${lora.rank}`, `alpha ${lora.alpha}`, `layers ${lora.targets.join(', ')}`, ...otherShapes(lora)].join(', ');
  if (shapeOf(found) === shapeOf(wanted)) return;
  throw new TrainerError(
    'trainer.remote_differs',
    `the Tinker server returned an adapter with ${shapeOf(found)}; requested was ${shapeOf(wanted)}`,
  );
}
