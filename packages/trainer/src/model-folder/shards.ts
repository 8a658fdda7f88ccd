import { shown } from '@trainyard/native';
import { SafetensorsReader, type SafetensorsEntry } from '../checkpoint/safetensors-reader.ts';
import { TrainerError } from '../contract/errors.ts';
import { isRecord, type FolderFiles } from './folder-files.ts';
import { ModelFolderError } from './model-folder-error.ts';

export const SINGLE_FILE = 'model.safetensors';
export const INDEX_FILE = 'model.safetensors.index.json';
const PICKLES = /\.(?:bin|pt|pth|ckpt|pkl)$/;
/** Each holds a file descriptor. */
const MAX_SHARDS = 512;

/** A tensor and the open file that has it. */
export interface ShardTensor {
  readonly entry: SafetensorsEntry;
  readonly reader: SafetensorsReader;
  /** Name of the file. */
  readonly file: string;
}

/** Weights of a folder, in one safetensors file or in those of an index. Pickles are never read. */
export class Shards implements Disposable {
  readonly tensors: ReadonlyMap<string, ShardTensor>;
  readonly #readers: readonly SafetensorsReader[];

  /** @param textPrefix of names of a model with images, which stands for `model.`; null: none. @throws {ModelFolderError} */
  static open(files: FolderFiles, textPrefix: string | null = null): Shards {
    const { names, placeOf } = shardNames(files);
    const renamed = (name: string): string =>
      textPrefix !== null && name.startsWith(textPrefix) ? `model.${name.slice(textPrefix.length)}` : name;
    const readers: SafetensorsReader[] = [];
    try {
      const tensors = new Map<string, ShardTensor>();
      for (const file of names) {
        const reader = openShard(files, file);
        readers.push(reader);
        for (const [name, entry] of reader.entries) {
          const other = tensors.get(renamed(name));
          if (other !== undefined)
            throw new ModelFolderError(`${file} and ${other.file} both have the tensor ${shown(name)}`);
          tensors.set(renamed(name), { entry, reader, file });
        }
      }
      for (const [name, file] of placeOf)
        if (tensors.get(renamed(name))?.file !== file)
          throw new ModelFolderError(`${INDEX_FILE} places the tensor ${shown(name)} in ${file}, which lacks it`);
      return new Shards(tensors, readers);
    } catch (error) {
      for (const reader of readers) reader.close();
      throw error;
    }
  }

  private constructor(tensors: ReadonlyMap<string, ShardTensor>, readers: readonly SafetensorsReader[]) {
    this.tensors = tensors;
    this.#readers = readers;
  }

  [Symbol.dispose](): void {
    for (const reader of this.#readers) reader.close();
  }
}

/** Files with weights. @throws {ModelFolderError} */
export function shardNames(files: FolderFiles): {
  readonly names: readonly string[];
  /** File of each tensor according to the index; empty without one. */
  readonly placeOf: ReadonlyMap<string, string>;
} {
  if (files.names.has(SINGLE_FILE)) return { names: [SINGLE_FILE], placeOf: new Map() };
  if (!files.names.has(INDEX_FILE)) throw missingWeights(files);
  const map = files.readJson(INDEX_FILE)['weight_map'];
  if (!isRecord(map)) throw new ModelFolderError(`${INDEX_FILE} has no weight_map`);
  const placeOf = new Map<string, string>();
  for (const [tensor, file] of Object.entries(map)) {
    if (typeof file !== 'string' || !file.endsWith('.safetensors'))
      throw new ModelFolderError(
        `${INDEX_FILE} places the tensor ${shown(tensor)} in ${shown(file)}, not a .safetensors file`,
      );
    placeOf.set(tensor, file);
  }
  const names = [...new Set(placeOf.values())].toSorted();
  if (names.length === 0 || names.length > MAX_SHARDS)
    throw new ModelFolderError(`${INDEX_FILE} names ${names.length} files; 1 to ${MAX_SHARDS} are possible`);
  return { names, placeOf };
}

function missingWeights({ names }: FolderFiles): ModelFolderError {
  const all = [...names].toSorted();
  const pickle = all.find((name) => PICKLES.test(name));
  const gguf = all.find((name) => name.endsWith('.gguf'));
  if (gguf !== undefined)
    return new ModelFolderError(`it has no ${SINGLE_FILE}: pass its GGUF file, for example --model ID=${gguf}`);
  if (pickle !== undefined)
    return new ModelFolderError(
      `it has only pickled weights (${pickle}), which can run code and are never read: ` +
        'save the model as safetensors (`save_pretrained` of transformers), or use a GGUF file of it',
    );
  return new ModelFolderError(`it has neither ${SINGLE_FILE} nor ${INDEX_FILE}: download the weights as well`);
}

function openShard(files: FolderFiles, name: string): SafetensorsReader {
  const path = files.pathOf(name);
  try {
    return SafetensorsReader.open(path, true);
  } catch (error) {
    throw error instanceof TrainerError ? inFolder(error, path, name) : error;
  }
}

/** Names the file as in the folder, not the blob that it links to. */
function inFolder(error: TrainerError, path: string, name: string): ModelFolderError {
  return new ModelFolderError(
    error.message.replace(path, () => name),
    { cause: error },
  );
}
