import { basename, dirname } from 'node:path';
import { type GgufTensorShape, type GgufWritableValue, shown, storedBytes } from '@trainyard/native';
import { ROPE_FACTORS } from '@trainyard/transformer';
import { chatTemplates, TEMPLATE_FILES } from './chat-templates.ts';
import { type FolderConfig, readFolderConfig } from './folder-config.ts';
import { FolderFiles, sourceFile } from './folder-files.ts';
import type { SourceFile } from './model-copy.ts';
import { ModelFolderError, unsupportedFolder } from './model-folder-error.ts';
import { modelMetadata, ropeFactors } from './model-metadata.ts';
import { INDEX_FILE, shardNames, SINGLE_FILE, Shards, type ShardTensor } from './shards.ts';
import { mxfp4Bytes, numberType, storedType, tensorBytes } from './tensor-bytes.ts';
import { isIgnoredTensor, type TableTensor, tensorTable } from './tensor-table.ts';
import { TOKENIZER_FILES, tokenizerMetadata } from './tokenizer-metadata.ts';

export interface FolderTensor extends GgufTensorShape {
  readonly sizeBytes: number;
  /** @throws {ModelFolderError} for values that are not finite */
  bytes(): Iterable<Uint8Array>;
}

/** A folder in the Hugging Face format with all but the values of its tensors checked. Holds its weights open. */
export class ModelFolder implements Disposable {
  readonly metadata: Readonly<Record<string, GgufWritableValue>>;
  readonly tensors: readonly FolderTensor[];
  readonly #shards: Shards;

  /** @param chatTemplate file of a template that replaces its own. @throws {ModelFolderError} */
  static open(path: string, chatTemplate: string | null = null): ModelFolder {
    const { files, config, vocabulary } = readTexts(path, chatTemplate);
    const shards = Shards.open(files, config.family.textPrefix);
    try {
      return new ModelFolder(files, config, { vocabulary, shards });
    } catch (error) {
      shards[Symbol.dispose]();
      throw error;
    }
  }

  private constructor(
    files: FolderFiles,
    config: FolderConfig,
    { vocabulary, shards }: { vocabulary: Readonly<Record<string, GgufWritableValue>>; shards: Shards },
  ) {
    const stored = matched(
      tensorTable(config, (tensor) => shards.tensors.has(tensor)),
      shards,
      config.architecture,
    );
    // The largest matrix is the embedding.
    const type = numberType(stored[0]![1][0]!.entry);
    this.metadata = { ...modelMetadata(config, folderLabel(files.directory), type), ...vocabulary };
    this.tensors = [...ropeTensors(config), ...stored.map(([tensor, places]) => folderTensor(tensor, places))];
    this.#shards = shards;
  }

  [Symbol.dispose](): void {
    this.#shards[Symbol.dispose]();
  }
}

/** Files of a folder that are read, except its weights. */
export const FOLDER_TEXT_FILES: readonly string[] = ['config.json', ...TOKENIZER_FILES, ...TEMPLATE_FILES];

/** Checks the files of a folder that describe the model. Its weights may be missing. @throws {ModelFolderError} */
export function checkFolderTexts(path: string): void {
  readTexts(path, null);
}

/** Names of a folder's files of weights, which may be missing. Their index is read. @throws {ModelFolderError} */
export function weightFiles(path: string): readonly string[] {
  const files = new FolderFiles(path);
  return files.names.has(INDEX_FILE) ? shardNames(files).names : [SINGLE_FILE];
}

function readTexts(path: string, chatTemplate: string | null) {
  const files = new FolderFiles(path);
  const config = readFolderConfig(files);
  const vocabulary = {
    ...tokenizerMetadata(files, config.architecture.vocabSize),
    ...chatTemplates(files, chatTemplate),
  };
  return { files, config, vocabulary };
}

/** All files that are read, by name. @throws {ModelFolderError} */
export function folderFiles(path: string, chatTemplate: string | null = null): ReadonlyMap<string, SourceFile> {
  const files = new FolderFiles(path);
  const texts = [...FOLDER_TEXT_FILES, INDEX_FILE].filter((name) => files.names.has(name));
  const names = [...texts, ...shardNames(files).names];
  const template = chatTemplate === null ? [] : [['chat template', sourceFile(chatTemplate)] as const];
  return new Map([...names.map((name) => [name, sourceFile(files.pathOf(name))] as const), ...template]);
}

/** The folder's name, or the repository's for a snapshot of the Hugging Face cache: `org--name`. */
export function folderLabel(directory: string): string {
  const [, repository] = /[/\\]models--([^/\\]+)[/\\]snapshots[/\\][^/\\]+$/.exec(directory) ?? [];
  return repository ?? (basename(directory) || basename(dirname(directory)) || 'model');
}

/** Each tensor of the table with its place. @throws {ModelFolderError} for missing, other and wrong ones */
function matched(
  table: readonly TableTensor[],
  { tensors }: Shards,
  architecture: FolderConfig['architecture'],
): (readonly [TableTensor, readonly ShardTensor[]])[] {
  const { name: family } = architecture;
  const stored = table.map((tensor) => {
    const { names, dims, scales } = tensor.sources;
    const placeOf = (source: string, needed: readonly number[]): ShardTensor => {
      const place = tensors.get(source);
      if (place === undefined) throw new ModelFolderError(`the weights lack the tensor ${source} of a ${family} model`);
      if (place.entry.dims.join() !== needed.join())
        throw new ModelFolderError(
          `the tensor ${source} in ${place.file} is [${place.entry.dims.join(', ')}], config.json needs [${needed.join(', ')}]`,
        );
      if (scales === null) numberType(place.entry);
      else if (place.entry.dtype !== 'U8')
        throw new ModelFolderError(`the tensor ${source} is ${place.entry.dtype}, and must be U8`);
      return place;
    };
    const places = names.map((source) => placeOf(source, dims));
    if (scales !== null) return [tensor, [...places, placeOf(scales.name, scales.dims)]] as const;
    const [first] = places;
    const other = places.find(({ entry }) => entry.dtype !== first!.entry.dtype);
    if (other !== undefined)
      throw new ModelFolderError(
        `the tensor ${other.entry.name} is ${other.entry.dtype}, and ${first!.entry.name} ${first!.entry.dtype}: experts of a layer must have one type`,
      );
    return [tensor, places] as const;
  });
  // A tied head may be stored as well; it is the embedding.
  const known = new Set([
    ...table.flatMap(({ sources: { names, scales } }) => (scales === null ? names : [...names, scales.name])),
    'lm_head.weight',
  ]);
  const other = tensors.keys().find((name) => !known.has(name) && !isIgnoredTensor(name, architecture));
  if (other !== undefined)
    throw unsupportedFolder(`the weights have the tensor ${shown(other)}, which no ${family} model has`);
  return stored;
}

function folderTensor(tensor: TableTensor, places: readonly ShardTensor[]): FolderTensor {
  const { name, dims } = tensor;
  const type = storedType(tensor, places[0]!);
  const numValues = dims.reduce((product, dim) => product * dim, 1);
  return {
    name,
    dims: dims.toReversed(),
    type,
    sizeBytes: storedBytes(type, numValues),
    bytes: () =>
      type === 'mxfp4'
        ? mxfp4Bytes(tensor, places[0]!, places[1]!)
        : places.values().flatMap((place) => tensorBytes(tensor, place)),
  };
}

function ropeTensors(config: FolderConfig): FolderTensor[] {
  const { architecture, ropeScaling } = config;
  const factors = (name: string, values: Float32Array): FolderTensor => {
    const bytes = new Uint8Array(values.buffer);
    return { name, dims: [values.length], type: 'f32', sizeBytes: bytes.length, bytes: () => [bytes] };
  };
  if (ropeScaling.kind === 'llama3') return [factors('rope_freqs.weight', ropeFactors(ropeScaling, architecture))];
  if (ropeScaling.kind !== 'longrope') return [];
  return (['long', 'short'] as const).map((which) =>
    factors(ROPE_FACTORS[which], Float32Array.from(ropeScaling[which])),
  );
}
