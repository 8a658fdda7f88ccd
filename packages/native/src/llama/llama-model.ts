import assert from 'node:assert';
import { koffi } from '../binding/koffi.ts';
import { NativeError } from '../binding/errors.ts';
import { library } from '../binding/library.ts';
import { captureErrors } from '../binding/log.ts';
import { NativeHandle } from '../binding/native-handle.ts';
import { structTypes } from '../binding/structs.ts';
import type { Pointer } from '../binding/structs.ts';
import { TokenTable } from './token-table.ts';
import type { TokenKind } from './token-table.ts';

/** `LLAMA_LOAD_MODE_NONE`: weights are read into memory. */
const LOAD_UNMAPPED = 0;

/** File-mapped weights and vocabulary. Closing it closes its contexts and adapters too. */
export class LlamaModel implements Disposable {
  readonly path: string;
  /** False if only checked, or loaded with `vocabOnly`: such a model only tokenises. */
  readonly hasWeights: boolean;
  readonly vocabSize: number;
  /** Context length of the training, tokens. */
  readonly contextLength: number;
  readonly embeddingLength: number;
  readonly numLayers: number;
  /** Some layers keep a state of a whole sequence instead of keys and values by token: no part of it can be copied. */
  readonly hasRecurrentState: boolean;
  /** `general.architecture`, such as "llama" or "qwen3". */
  readonly architecture: string;
  /** Bytes of all tensors as stored. */
  readonly sizeBytes: number;
  /** Jinja source from the file. */
  readonly chatTemplate: string | undefined;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number | null;
  readonly eotTokenId: number | null;
  /** True if the model expects BOS before every prompt. */
  readonly addsBos: boolean;
  /** `tokenizer.ggml.pre`: name of the splitter that runs before BPE. */
  readonly preTokenizer: string | undefined;
  /** @internal */
  readonly handle: NativeHandle;
  readonly #vocab: Pointer;
  #table: TokenTable | undefined;

  /**
   * Loads a model file; for split files pass the first.
   *
   * @param o.vocabOnly leave the weights on disk: enough for tokenisation. Default false
   * @param o.onProgress called with 0..1 while weights load; an exception cancels the load and is rethrown
   * @throws {NativeError} `native.model_unreadable` with llama.cpp's reason; `native.platform_unsupported`,
   * `native.library_mismatch`
   */
  static load(path: string, o: { vocabOnly?: boolean; onProgress?: (fraction: number) => void } = {}): LlamaModel {
    const llama = library();
    const params = llama.modelDefaultParams();
    params.n_gpu_layers = 0;
    params.vocab_only = o.vocabOnly ?? false;
    const { onProgress } = o;
    // An exception must not pass through C: it stops the load there and is rethrown here.
    let thrown: { error: unknown } | undefined;
    const progress =
      onProgress === undefined
        ? null
        : koffi().register((fraction: number) => {
            try {
              onProgress(fraction);
            } catch (error) {
              thrown ??= { error };
            }
            return thrown === undefined;
          }, koffi().pointer(structTypes().PROGRESS_CALLBACK));
    params.progress_callback = progress;
    try {
      const { result, errors } = captureErrors(() => llama.modelLoad(cPath(path), params));
      if (thrown !== undefined) {
        if (result !== null) llama.modelFree(result);
        throw thrown.error;
      }
      if (result === null) {
        throw unreadable(path, errors);
      }
      return new LlamaModel(path, result, !params.vocab_only);
    } finally {
      if (progress !== null) koffi().unregister(progress);
    }
  }

  /**
   * Checks architecture, settings, vocabulary, and name, shape and place of each tensor. Reads no weights: the model
   * only tokenises, as if loaded with `vocabOnly`.
   *
   * @throws {NativeError} as `load`
   */
  static checked(path: string): LlamaModel {
    const llama = library();
    const params = llama.modelDefaultParams();
    params.n_gpu_layers = 0;
    params.no_alloc = true;
    params.load_mode = LOAD_UNMAPPED; // llama.cpp aborts if a mapped file gets no memory
    const { result, errors } = captureErrors(() => llama.modelLoad(cPath(path), params));
    if (result === null) throw unreadable(path, errors);
    return new LlamaModel(path, result, false);
  }

  private constructor(path: string, address: Pointer, hasWeights: boolean) {
    const llama = library();
    this.path = path;
    this.hasWeights = hasWeights;
    this.handle = new NativeHandle('LlamaModel', address, llama.modelFree);
    this.#vocab = llama.modelVocab(address);
    this.vocabSize = llama.vocabSize(this.#vocab);
    this.contextLength = llama.modelContextTrain(address);
    this.embeddingLength = llama.modelEmbedding(address);
    this.numLayers = llama.modelLayers(address);
    this.hasRecurrentState = llama.modelIsRecurrent(address) || llama.modelIsHybrid(address);
    this.architecture = this.metadata('general.architecture') ?? 'unknown';
    this.sizeBytes = llama.modelSize(address);
    this.chatTemplate = llama.modelChatTemplate(address, null) ?? undefined;
    this.bosTokenId = tokenOrNull(llama.vocabBos(this.#vocab));
    this.eosTokenId = tokenOrNull(llama.vocabEos(this.#vocab));
    this.eotTokenId = tokenOrNull(llama.vocabEot(this.#vocab));
    this.addsBos = llama.vocabAddsBos(this.#vocab);
    this.preTokenizer = this.metadata('tokenizer.ggml.pre');
  }

  /** A scalar of the file's metadata as text, or undefined. For arrays use `GgufFile`. */
  metadata(key: string): string | undefined {
    const llama = library();
    const size = llama.modelMeta(this.handle.address, key, null, 0);
    if (size < 0) return undefined;
    const bytes = new Uint8Array(size + 1); // C writes a final NUL
    llama.modelMeta(this.handle.address, key, bytes, bytes.length);
    return new TextDecoder().decode(bytes.subarray(0, size));
  }

  /**
   * A lone surrogate becomes U+FFFD; a byte missing in the vocabulary is dropped (SmolLM2 lacks 21, such as 0x13
   * and 0xff).
   *
   * Some pre-tokenizers recurse per character and overflow the C stack on a long word, so callers must bound the
   * text (see `preTokenizer`).
   *
   * @param o.addSpecial add BOS/EOS if the model asks for them
   * @param o.parseSpecial parse control tokens in the text: never for user text
   */
  tokenize(text: string, o: { addSpecial: boolean; parseSpecial: boolean }): Int32Array {
    const llama = library();
    this.handle.assertOpen(); // the vocabulary lives in the model
    const utf8 = Buffer.from(text, 'utf8');
    const call = (out: Int32Array) =>
      llama.tokenize(this.#vocab, utf8, utf8.length, out, out.length, o.addSpecial, o.parseSpecial);
    let out = new Int32Array(utf8.length + 8);
    let count = call(out);
    if (count < 0) {
      assert(count !== -0x80000000, `a text of ${utf8.length} bytes has more than 2^31 tokens`);
      out = new Int32Array(-count);
      count = call(out);
    }
    return out.slice(0, count);
  }

  /** Need not be whole characters; a special token's bytes are its text. A view: do not write. */
  tokenBytes(id: number): Uint8Array {
    return this.#tokens().bytes(id);
  }

  tokenKind(id: number): TokenKind {
    return this.#tokens().kind(id);
  }

  isEndOfGeneration(id: number): boolean {
    return this.#tokens().endsGeneration(id);
  }

  close(): void {
    this.handle.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Reads the table on first use: about 1 µs per token. */
  #tokens(): TokenTable {
    this.handle.assertOpen();
    return (this.#table ??= new TokenTable(this.#vocab, this.vocabSize));
  }
}

function unreadable(path: string, errors: string): NativeError {
  return new NativeError('native.model_unreadable', `cannot load the model ${path}: ${reasonOf(errors)}`);
}

/** llama.cpp's reason without the names of its functions. */
function reasonOf(errors: string): string {
  const lines = errors.split('; ').filter((line) => !line.startsWith('llama_model_load_from_file_impl: '));
  const reasons = lines.map((line) =>
    line
      .replace(/^llama_model_load: (?:error loading model: )*/, '')
      .replace(/^(?:check_tensor_dims|done_getting_tensors): /, ''),
  );
  return (reasons.join('; ') || errors || 'no reason given').replaceAll(/\s+/g, ' ');
}

/** C would stop reading at a NUL and open another file. */
export function cPath(path: string): string {
  assert(!path.includes('\0'), 'a path must not contain NUL');
  return path;
}

function tokenOrNull(token: number): number | null {
  return token < 0 ? null : token;
}
