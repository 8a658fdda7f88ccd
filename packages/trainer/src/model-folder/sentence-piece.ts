import { type GgufWritableValue, shown } from '@trainyard/native';
import type { Fields } from './config-fields.ts';
import { isRecord } from './folder-files.ts';
import { ModelFolderError, unsupportedFolder } from './model-folder-error.ts';

/** `tokenizer.ggml.token_type` */
const [UNKNOWN, BYTE] = [2, 6];
const NUM_BYTES = 256;
const BYTE_TOKEN = /^<0x[\dA-F]{2}>$/;
/** SentencePiece's sign for a space. */
const SPACE = '▁';

type Merges = readonly (readonly [left: string, right: string])[];

export interface SentencePieceTokens {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  readonly unknown: number | undefined;
}

/** True for BPE over characters with bytes for unknown ones, as SentencePiece has it. */
export const isSentencePiece = (model: Fields): boolean => model['byte_fallback'] === true;

/**
 * `tokenizer.ggml.*` of a SentencePiece vocabulary. Its merges are all splits of a token into two others, so the rank
 * of a token is its score.
 *
 * @param tokenizer tokenizer.json
 * @throws {ModelFolderError} for merges or rules for spaces that SentencePiece lacks
 */
export function sentencePieceMetadata(
  tokenizer: Fields,
  merges: Merges,
  { tokens, types, unknown }: SentencePieceTokens,
): Record<string, GgufWritableValue> {
  const hasPrefix = hasSpacePrefix(tokenizer);
  const numBytes = tokens.filter((token) => BYTE_TOKEN.test(token)).length;
  if (numBytes !== NUM_BYTES)
    throw new ModelFolderError(
      `tokenizer.json has ${numBytes} byte tokens; a SentencePiece vocabulary has ${NUM_BYTES}`,
    );
  const kinds = types.map((type, id) => (BYTE_TOKEN.test(tokens[id]!) ? BYTE! : id === unknown ? UNKNOWN! : type));
  return {
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.pre': 'default',
    'tokenizer.ggml.tokens': { array: { type: 'string', values: tokens } },
    'tokenizer.ggml.scores': { array: { type: 'f32', values: scores(tokens, merges) } },
    'tokenizer.ggml.token_type': { array: { type: 'i32', values: kinds } },
    'tokenizer.ggml.add_space_prefix': hasPrefix,
  };
}

/** Minus the place of each merged token in the order of merges; below them for the others. */
function scores(tokens: readonly string[], merges: Merges): number[] {
  const ids = new Set(tokens);
  const places = new Map<string, number>();
  const known = new Set<string>();
  let last: string | null = null;
  for (const [left, right] of merges) {
    const merged = left + right;
    if (!ids.has(left) || !ids.has(right) || !ids.has(merged))
      throw new ModelFolderError(
        `tokenizer.json merges ${shown(left)} and ${shown(right)}, which are no tokens together`,
      );
    if (merged !== last && places.has(merged)) throw otherMerges(merged);
    if (!places.has(merged)) places.set(merged, places.size + 1);
    known.add(`${left} ${right}`);
    last = merged;
  }
  for (const token of places.keys())
    if (splitsOf(token, places).some((halves) => !known.has(halves.join(' ')))) throw otherMerges(token);
  return tokens.map((token) => -(places.get(token) ?? places.size + 1));
}

/** Splits of a token into two that merges can reach: characters and merged ones. */
export function splitsOf(
  token: string,
  merged: Pick<ReadonlyMap<string, unknown>, 'has'>,
): (readonly [left: string, right: string])[] {
  const characters = Array.from(token);
  const isReached = (part: string) => merged.has(part) || Array.from(part).length === 1;
  return characters
    .slice(1)
    .map((_, at) => [characters.slice(0, at + 1).join(''), characters.slice(at + 1).join('')] as const)
    .filter((halves) => halves.every(isReached));
}

const otherMerges = (token: string) =>
  unsupportedFolder(
    `the merges of tokenizer.json for the token ${shown(token)} are not those of SentencePiece, and \`byte_fallback\` is set`,
  );

/**
 * True if a space is put before each text; false if not.
 *
 * @throws {ModelFolderError} for other rules
 */
function hasSpacePrefix({ normalizer, pre_tokenizer: splitter }: Fields): boolean {
  const parts = partsOf(normalizer, 'normalizers');
  const isPrefix = (part: Fields) => part['type'] === 'Prepend' && part['prepend'] === SPACE;
  if (!parts.every((part) => isPrefix(part) || replacesSpaces(part))) throw unsupportedSpaces('normalizer', normalizer);
  const replaces = parts.some(replacesSpaces);
  if (replaces && (splitter === null || splitter === undefined || splitsNothing(splitter))) return parts.some(isPrefix);
  if (parts.length > 0 || !isRecord(splitter) || splitter['type'] !== 'Metaspace' || splitter['split'] === true)
    throw unsupportedSpaces('pre-tokenizer', splitter);
  const scheme = splitter['prepend_scheme'] ?? 'always';
  if (scheme === 'first')
    throw unsupportedFolder(
      'tokenizer.json puts a space before the first part of a text only (`prepend_scheme`), which is not supported',
    );
  return scheme === 'always';
}

function partsOf(section: unknown, list: string): readonly Fields[] {
  if (section === null || section === undefined) return [];
  if (!isRecord(section)) throw unsupportedSpaces('normalizer', section);
  const parts = section['type'] === 'Sequence' ? section[list] : [section];
  if (!Array.isArray(parts) || !parts.every(isRecord)) throw unsupportedSpaces('normalizer', section);
  return parts;
}

function replacesSpaces(part: Fields): boolean {
  const { type, pattern, content } = part;
  return type === 'Replace' && isRecord(pattern) && pattern['String'] === ' ' && content === SPACE;
}

/** Splits at spaces, of which none are left. */
function splitsNothing(splitter: unknown): boolean {
  if (!isRecord(splitter) || splitter['type'] !== 'Split') return false;
  return isRecord(splitter['pattern']) && splitter['pattern']['String'] === ' ';
}

const unsupportedSpaces = (part: string, section: unknown) =>
  unsupportedFolder(
    `the ${part} ${shown(isRecord(section) ? section['type'] : section)} of tokenizer.json is not supported with SentencePiece's BPE`,
  );
