import { GgufFile, LlamaModel, NativeError, shown } from '@trainyard/native';

/** Values of `rope.scaling.type`; llama.cpp aborts the process on any other. */
const ROPE_SCALINGS: readonly unknown[] = [undefined, 'none', 'linear', 'yarn', 'longrope'];

/** Tensor types that exist only between two operations; a file that stores them cannot be computed. */
const INTERMEDIATE_TYPES: ReadonlySet<string> = new Set(['q8_1', 'q8_K']);

/**
 * Refuses a model file that would fail to open later, at the first sample or training job. Reads only the
 * header.
 *
 * @returns the vocabulary, which the caller must close
 * @throws {NativeError} `native.model_unreadable` with file, reason and remedy; `native.gguf_malformed`
 */
export function requireLoadable(path: string): LlamaModel {
  using file = GgufFile.open(path);
  const problem = problemOf(file);
  if (problem !== null) throw unloadable(`cannot load the model ${path}: ${problem}`);
  try {
    return LlamaModel.checked(path);
  } catch (error) {
    if (!(error instanceof NativeError) || error.code !== 'native.model_unreadable') throw error;
    throw unloadable(error.message, error);
  }
}

/** Problems that llama.cpp does not report: it loads such a file and fails later, or aborts. */
function problemOf({ metadata, tensors }: GgufFile): string | null {
  const kind = metadata.get('general.type') ?? 'model';
  if (kind !== 'model') return `general.type is ${shown(kind)}, a base model has "model"`;
  const name = String(metadata.get('general.architecture') ?? '');
  const setting = (key: string) => metadata.get(`${name}.${key}`);
  for (const key of ['block_count', 'context_length']) {
    const value = setting(key);
    if ((typeof value === 'number' || typeof value === 'bigint') && value < 1)
      return `${name}.${key} must be at least 1, got ${value}`;
  }
  const numBlocks = setting('block_count');
  // The first file of several may have no tensors.
  if (Number(numBlocks) > tensors.size && !metadata.has('split.count'))
    return `${name}.block_count is ${shown(numBlocks)}, and the file has ${tensors.size} tensors`;
  const scaling = setting('rope.scaling.type');
  if (!ROPE_SCALINGS.includes(scaling))
    return `${name}.rope.scaling.type must be none, linear, yarn or longrope, got ${shown(scaling)}`;
  if (setting('attention.causal') === false)
    return `${name}.attention.causal is false: the model only makes embeddings and cannot sample`;
  if (metadata.get('tokenizer.ggml.model') === 'no_vocab')
    return 'tokenizer.ggml.model is "no_vocab": it has no vocabulary';
  const stored = tensors.values().find(({ type }) => INTERMEDIATE_TYPES.has(type));
  return stored === undefined ? null : `${shown(stored.name)} has the type ${stored.type}, which is not supported`;
}

function unloadable(message: string, cause?: Error): NativeError {
  const remedy = /'output\.weight' not found/.test(message)
    ? 'llama.cpp has no tied embeddings for this architecture. Convert the model again with its own output.weight'
    : 'convert or download the model again';
  return new NativeError('native.model_unreadable', `${message}. Remedy: ${remedy}, or serve another file`, { cause });
}
