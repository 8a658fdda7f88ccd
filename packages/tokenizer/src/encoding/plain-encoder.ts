import { GgufFile, type LlamaModel } from '@trainyard/native';
import { BytePairEncoder } from './byte-pair-encoder.ts';
import { splitterOf } from './splitters.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';

/**
 * Encoder of text without control tokens that is safe on any text. For splitters not written by hand llama.cpp
 * uses std::regex, which recurses per character and overflows the stack on one long word; such vocabularies are
 * encoded here.
 *
 * @throws {TokenizerError} `tokenizer.unknown_vocabulary` for a byte-pair vocabulary whose splitter is not in
 * `SPLITTERS`
 */
export function plainEncoderOf(model: LlamaModel): (text: string) => Int32Array {
  const native = (text: string) => model.tokenize(text, { addSpecial: false, parseSpecial: false });
  // Only byte pair encoding ("gpt2") splits before it encodes.
  if (model.metadata('tokenizer.ggml.model') !== 'gpt2') return native;
  const name = model.preTokenizer ?? 'default';
  const splitter = splitterOf(name);
  if (splitter === undefined) {
    const message = `the model's splitter (tokenizer.ggml.pre) is ${JSON.stringify(name)}, which is not among those known to be safe`;
    throw new TokenizerError('tokenizer.unknown_vocabulary', message);
  }
  if (splitter.isSafeInLlamaCpp) return native;
  const encoder = createBytePairEncoder(model, name);
  return (text) => encoder.encode(text);
}

/**
 * @param splitterName a key of `SPLITTERS`
 * @throws {TokenizerError} `tokenizer.unknown_vocabulary` if the file has no merges, or the splitter is unknown
 */
export function createBytePairEncoder(model: LlamaModel, splitterName: string): BytePairEncoder {
  using file = GgufFile.open(model.path);
  const tokens = strings(file, 'tokenizer.ggml.tokens');
  const merges = strings(file, 'tokenizer.ggml.merges');
  const splitter = splitterOf(splitterName);
  if (tokens === null || merges === null || splitter === undefined) {
    const message = `${model.path} has no byte-pair vocabulary with the splitter ${JSON.stringify(splitterName)}`;
    throw new TokenizerError('tokenizer.unknown_vocabulary', message);
  }
  const userDefined = tokens
    .map((_, id) => ({ id, text: Buffer.from(model.tokenBytes(id)).toString() }))
    .filter(({ id }) => model.tokenKind(id) === 'user_defined');
  return new BytePairEncoder({ tokens, merges, userDefined }, splitter);
}

function strings(file: GgufFile, key: string): string[] | null {
  const value = file.metadata.get(key);
  return Array.isArray(value) && value.every((element) => typeof element === 'string') ? value : null;
}
