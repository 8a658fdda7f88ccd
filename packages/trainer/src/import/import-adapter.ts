import { GgufFile, shown } from '@trainyard/native';
import { type LoraConfig, moduleShape, orderValueHeads } from '@trainyard/transformer';
import { writeAdapterFiles } from '../checkpoint/checkpoint.ts';
import { diskFault } from '../checkpoint/durable-directory.ts';
import { TrainerError } from '../contract/errors.ts';
import { loraShapes } from '../model/lora-parameters.ts';
import type { LoraTensor } from '../model/policy-model.ts';
import { SafetensorsReader } from '../checkpoint/safetensors-reader.ts';
import { peftTensorName } from '../model/adapter-tensors.ts';
import { importedShape } from './imported-shape.ts';
import { readPeftConfig } from './peft-config.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';

export interface ImportRequest {
  /** GGUF file of the base model. */
  readonly modelPath: string;
  /** Text of adapter_config.json. */
  readonly config: string;
  /** The safetensors file. */
  readonly weightsPath: string;
  /** Must exist and be empty; unusable after a failure. */
  readonly outputDirectory: string;
  /** Default: none. */
  readonly metrics?: Readonly<Record<string, number>>;
}

export interface ImportedAdapter {
  readonly lora: LoraConfig;
  /** sha256 of the written weights and scale, hex. */
  readonly digest: string;
}

const WEIGHTS_FILE = 'adapter_model.safetensors';

/**
 * Checks a PEFT adapter against a base model and writes it as a checkpoint, in float32, with the ranks and
 * scales of its modules.
 *
 * @throws {TrainerError} `trainer.adapter_invalid` with the option or tensor, expected and found;
 * `trainer.architecture_unsupported`, `trainer.disk_full`
 */
export function importAdapter(request: ImportRequest): ImportedAdapter {
  const config = readPeftConfig(request.config);
  const base = GgufFile.open(request.modelPath);
  let architecture;
  try {
    architecture = trainableArchitecture(base);
  } finally {
    base.close();
  }
  using weights = openWeights(request.weightsPath);
  const { lora, has } = importedShape(architecture, config);
  const places = loraShapes(architecture, lora);
  const expected = places.filter(({ layer, linear }) => has(layer, linear));
  refuseOthers(weights, new Set(expected.map(peftTensorName)), lora);
  // Check shapes first: they reveal another base model before large tensors are in memory.
  for (const place of expected) {
    const name = peftTensorName(place);
    const { dims } = place;
    const found = weights.entries.get(name);
    if (found === undefined) throw invalid(`tensor ${name} is missing; expected [${dims.join(', ')}]`);
    if (found.dims.join() === dims.join()) continue;
    const { rank } = moduleShape(lora, place.layer, place.linear);
    throw invalid(
      `tensor ${name} is [${found.dims.join(', ')}], expected [${dims.join(', ')}] for this base model and r ${rank}`,
    );
  }
  const gradient = new Float32Array(0);
  const tensors = places.map((place): LoraTensor => {
    if (!has(place.layer, place.linear))
      return { ...place, value: new Float32Array(place.dims[0] * place.dims[1]), gradient };
    const name = peftTensorName(place);
    const value = orderValueHeads(weights.readF32(name), place.valueHeads, 'tiles');
    if (!value.every(Number.isFinite)) throw invalid(`tensor ${name} has values that are not finite`);
    // This half is multiplied by the scale.
    const { scale } = moduleShape(lora, place.layer, place.linear);
    if (place.half === 'b' && !value.every((one) => Number.isFinite(Math.fround(one * scale))))
      throw invalid(`tensor ${name} has values that are not finite once they are multiplied by lora_alpha / r`);
    return { ...place, value, gradient };
  });
  try {
    const { outputDirectory, metrics = {} } = request;
    const adapter = { lora: { config: lora, tensors }, architecture, metrics };
    return { lora, digest: writeAdapterFiles(outputDirectory, adapter) };
  } catch (error) {
    throw diskFault(error, request.outputDirectory);
  }
}

function openWeights(path: string): SafetensorsReader {
  try {
    return SafetensorsReader.open(path);
  } catch (error) {
    if (!(error instanceof TrainerError)) throw error;
    // The temporary file has another name than the original.
    throw invalid(error.message.replaceAll(path, WEIGHTS_FILE), error);
  }
}

/** Refuses tensors outside the adapter instead of losing them. */
function refuseOthers(weights: SafetensorsReader, expected: ReadonlySet<string>, lora: LoraConfig): void {
  for (const { name, dims } of weights.entries.values()) {
    if (expected.has(name)) continue;
    throw invalid(
      `tensor ${shown(name)} of [${dims.join(', ')}] is not part of a LoRA adapter of this base model ` +
        `on ${lora.targets.join(', ')}; expected ${expected.size} tensors such as ${[...expected][0]}`,
    );
  }
}

function invalid(message: string, cause?: unknown): TrainerError {
  return new TrainerError('trainer.adapter_invalid', message, { cause });
}
