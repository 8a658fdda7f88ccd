import { shown } from '@trainyard/native';
import { GPT2_PATTERN, splitterNameOf } from '@trainyard/tokenizer';
import { isRecord } from './folder-files.ts';
import { unsupportedFolder } from './model-folder-error.ts';

/**
 * Name of the pre-tokenizer in GGUF (`tokenizer.ggml.pre`), found by its patterns.
 *
 * @param section `pre_tokenizer` of tokenizer.json
 * @param prefersWholeWords `ignore_merges` of its model
 * @throws {ModelFolderError} with the type or the pattern
 */
export function preTokenizerName(section: unknown, prefersWholeWords: boolean): string {
  const parts = partsOf(section);
  const patterns = parts.flatMap(patternsOf);
  if (parts.at(-1)?.['type'] !== 'ByteLevel') throw unsupportedPart(section);
  const name = splitterNameOf(patterns, prefersWholeWords);
  if (name !== null) return name;
  throw unsupportedFolder(
    `tokenizer.json splits words by ${shown(patterns.join(' , '))}${prefersWholeWords ? ' with `ignore_merges`' : ''}, which is not supported; supported are the pre-tokenizers of GPT-2, SmolLM, Llama 3 and Qwen`,
  );
}

function partsOf(section: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (!isRecord(section)) throw unsupportedPart(section);
  const list = section['type'] === 'Sequence' ? section['pretokenizers'] : [section];
  if (!Array.isArray(list) || !list.every(isRecord)) throw unsupportedPart(section);
  return list;
}

function patternsOf(part: Readonly<Record<string, unknown>>): string[] {
  const { type } = part;
  if (type === 'ByteLevel' && part['add_prefix_space'] !== true)
    return part['use_regex'] === false ? [] : [GPT2_PATTERN];
  if (type === 'Digits' && part['individual_digits'] === true) return [String.raw`\p{N}`];
  if (type === 'Split' && isRecord(part['pattern']) && part['behavior'] === 'Isolated' && part['invert'] !== true) {
    const regex = part['pattern']['Regex'];
    if (typeof regex === 'string') return [regex];
  }
  throw unsupportedPart(part);
}

const unsupportedPart = (part: unknown) =>
  unsupportedFolder(
    `the pre-tokenizer ${shown(isRecord(part) ? part['type'] : part)} of tokenizer.json, with its settings, is not supported`,
  );
