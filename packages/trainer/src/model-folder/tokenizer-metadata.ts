import { type GgufWritableValue, shown } from '@trainyard/native';
import { isRecord, type FolderFiles } from './folder-files.ts';
import { ModelFolderError, unsupportedFolder } from './model-folder-error.ts';
import type { Fields } from './config-fields.ts';
import { preTokenizerName } from './pre-tokenizer.ts';
import { isSentencePiece, sentencePieceMetadata } from './sentence-piece.ts';

export const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json', 'generation_config.json'] as const;
const [TOKENIZER_FILE, TOKENIZER_CONFIG_FILE, GENERATION_CONFIG_FILE] = TOKENIZER_FILES;

/** `tokenizer.ggml.token_type` */
const [NORMAL, CONTROL, USER_DEFINED, UNUSED] = [1, 3, 4, 5];
/** Merges have their rank in 20 bits in the encoder. */
const MAX_MERGES = 1 << 20;

interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly isSpecial: boolean;
}

/**
 * `tokenizer.ggml.*` of a BPE tokenizer: byte-level, or SentencePiece's.
 *
 * @param vocabSize of config.json; ids without a token become unused ones
 * @throws {ModelFolderError} with the type of an unsupported tokenizer
 */
export function tokenizerMetadata(files: FolderFiles, vocabSize: number): Record<string, GgufWritableValue> {
  if (!files.names.has(TOKENIZER_FILE)) throw missingTokenizer(files);
  const tokenizer = files.readJson(TOKENIZER_FILE);
  const model = bytePairModel(tokenizer);
  const added = addedTokens(tokenizer['added_tokens'] ?? [], vocabSize);
  const { tokens, types } = vocabulary(model['vocab'], added, vocabSize);
  const ids = specialIds(files, added, vocabSize);
  if (ids.eos === undefined)
    throw new ModelFolderError(`no end token is set: name it as \`eos_token\` in ${TOKENIZER_CONFIG_FILE}`);
  const merges = mergePairs(model['merges']);
  const unknown = tokens.indexOf(textOf(model['unk_token']) ?? '');
  return {
    ...(isSentencePiece(model)
      ? sentencePieceMetadata(tokenizer, merges, { tokens, types, unknown: unknown < 0 ? ids.unk : unknown })
      : byteLevelMetadata(tokenizer, model, { tokens, types, merges })),
    ...idEntry('bos', ids.bos),
    ...idEntry('eos', ids.eos),
    ...idEntry('unknown', ids.unk),
    ...idEntry('padding', ids.pad),
    ...furtherEnds(files, ids.eos, tokens),
    ...addedAtEnds(files, tokenizer['post_processor'], vocabSize),
  };
}

function byteLevelMetadata(
  tokenizer: Fields,
  model: Fields,
  {
    tokens,
    types,
    merges,
  }: { tokens: readonly string[]; types: readonly number[]; merges: readonly (readonly [string, string])[] },
): Record<string, GgufWritableValue> {
  refuseNormalizer(tokenizer['normalizer']);
  // A space in a half is GPT-2's letter for it.
  const texts = merges.map((halves) => halves.map((half) => half.replaceAll(' ', 'Ġ')).join(' '));
  return {
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.pre': preTokenizerName(tokenizer['pre_tokenizer'], model['ignore_merges'] === true),
    'tokenizer.ggml.tokens': { array: { type: 'string', values: tokens } },
    'tokenizer.ggml.token_type': { array: { type: 'i32', values: types } },
    'tokenizer.ggml.merges': { array: { type: 'string', values: texts } },
  };
}

function missingTokenizer({ names }: FolderFiles): ModelFolderError {
  if (names.has('tokenizer.model'))
    return unsupportedFolder(`it has a SentencePiece tokenizer (tokenizer.model), and no ${TOKENIZER_FILE}`);
  return new ModelFolderError(`it has no ${TOKENIZER_FILE}: download it as well, or save it with transformers`);
}

function bytePairModel(tokenizer: Fields): Fields {
  const { model } = tokenizer;
  const type = isRecord(model) ? model['type'] : undefined;
  if (!isRecord(model) || type !== 'BPE')
    throw unsupportedFolder(`the tokenizer type ${shown(type)} of ${TOKENIZER_FILE} is not supported; supported: BPE`);
  for (const name of ['continuing_subword_prefix', 'end_of_word_suffix'])
    if ((model[name] ?? '') !== '') throw unsupportedFolder(`\`${name}\` in ${TOKENIZER_FILE} is not supported`);
  return model;
}

/** NFC is left out, as llama.cpp does: it changes only texts that are not in that form. */
function refuseNormalizer(normalizer: unknown): void {
  if (normalizer === undefined || normalizer === null) return;
  const type = isRecord(normalizer) ? normalizer['type'] : normalizer;
  const parts = isRecord(normalizer) && type === 'Sequence' ? normalizer['normalizers'] : null;
  if (type === 'NFC' || (Array.isArray(parts) && parts.length === 0)) return;
  throw unsupportedFolder(
    `the normalizer ${shown(type)} of ${TOKENIZER_FILE} is not supported; supported: none, or NFC`,
  );
}

function addedTokens(list: unknown, vocabSize: number): ReadonlyMap<number, AddedToken> {
  const refuse = (token: unknown) =>
    new ModelFolderError(
      `\`added_tokens\` of ${TOKENIZER_FILE} must have a content and an id below ${vocabSize} (\`vocab_size\`) each, got ${shown(token)}`,
    );
  if (!Array.isArray(list)) throw refuse(list);
  const added = new Map<number, AddedToken>();
  for (const token of list as readonly unknown[]) {
    if (!isRecord(token)) throw refuse(token);
    const { id, content, special } = token;
    if (!isId(id, vocabSize) || typeof content !== 'string' || content === '' || added.has(id)) throw refuse(token);
    added.set(id, { id, content, isSpecial: special === true || looksSpecial(content) });
  }
  return added;
}

/** Some repositories do not mark control tokens as special; these spellings are always control tokens. */
function looksSpecial(text: string): boolean {
  return /^(?:<\|.*\|>|<｜.*｜>|<unused.*>)$/su.test(text) || text === '<pad>' || text === '<mask>';
}

function vocabulary(
  vocab: unknown,
  added: ReadonlyMap<number, AddedToken>,
  vocabSize: number,
): { tokens: string[]; types: number[] } {
  if (!isRecord(vocab)) throw new ModelFolderError(`the model of ${TOKENIZER_FILE} has no vocab`);
  const tokens = Array.from<string | null>({ length: vocabSize }).fill(null);
  const types = Array.from<number>({ length: vocabSize }).fill(UNUSED!);
  for (const [text, id] of Object.entries(vocab)) {
    if (!isId(id, vocabSize))
      throw new ModelFolderError(
        `the token ${shown(text)} of ${TOKENIZER_FILE} must have an id below ${vocabSize} (\`vocab_size\`), got ${shown(id)}`,
      );
    if (tokens[id] !== null)
      throw new ModelFolderError(`${TOKENIZER_FILE} gives the id ${id} to ${shown(tokens[id])} and ${shown(text)}`);
    tokens[id] = text;
    types[id] = NORMAL!;
  }
  for (const { id, content, isSpecial } of added.values()) {
    // SentencePiece's sign for a space.
    tokens[id] = isSpecial ? content : content.replaceAll('▁', ' ');
    types[id] = isSpecial ? CONTROL! : USER_DEFINED!;
  }
  return { tokens: tokens.map((token, id) => token ?? `[PAD${id}]`), types };
}

/** Halves of each merge, from texts with a space between them or from pairs. */
function mergePairs(merges: unknown): (readonly [left: string, right: string])[] {
  if (!Array.isArray(merges) || merges.length > MAX_MERGES)
    throw new ModelFolderError(`the model of ${TOKENIZER_FILE} must have a list of at most ${MAX_MERGES} merges`);
  return (merges as readonly unknown[]).map((merge) => {
    const at = typeof merge === 'string' ? merge.indexOf(' ', 1) : -1;
    if (typeof merge === 'string' && at > 0) return [merge.slice(0, at), merge.slice(at + 1)] as const;
    if (Array.isArray(merge) && merge.length === 2 && merge.every((half) => typeof half === 'string' && half !== ''))
      return [merge[0] as string, merge[1] as string] as const;
    throw new ModelFolderError(`a merge of ${TOKENIZER_FILE} must be two texts, got ${shown(merge)}`);
  });
}

type Special = 'bos' | 'eos' | 'unk' | 'pad';

/** Ids by text in tokenizer_config.json, else from config.json, else from generation_config.json. */
function specialIds(
  files: FolderFiles,
  added: ReadonlyMap<number, AddedToken>,
  vocabSize: number,
): Partial<Record<Special, number>> {
  const texts = files.readOptionalJson(TOKENIZER_CONFIG_FILE);
  const sources = [files.readJson('config.json'), files.readOptionalJson(GENERATION_CONFIG_FILE)];
  const idOf = (special: Special): number | undefined => {
    const text = textOf(texts[`${special}_token`]);
    const named = text === null ? undefined : added.values().find(({ content }) => content === text)?.id;
    if (named !== undefined) return named;
    const ids = sources.map((source) => source[`${special}_token_id`]).map((id) => (Array.isArray(id) ? id[0] : id));
    return ids.find((id): id is number => isId(id, vocabSize));
  };
  const found = (['bos', 'eos', 'unk', 'pad'] as const).map((special) => [special, idOf(special)] as const);
  return Object.fromEntries(found.filter(([, id]) => id !== undefined));
}

/** Tokens that end a generation in llama.cpp by their text, with those of fill-in-the-middle. */
const KNOWN_ENDS: ReadonlySet<string> = new Set(
  [
    '<|eot_id|> <|im_end|> <|end|> <|endoftext|> <|end_of_text|> <|eom_id|> <|return|> <|call|>',
    '<end_of_turn> <end_of_utterance> </s> <eos> <EOT> [EOT] [EOS] <｜end▁of▁sentence｜>',
    '<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]',
    '<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <|file_sep|>',
  ].flatMap((texts) => texts.split(' ')),
);

/** Other end tokens of generation_config.json; GGUF has places for two. */
function furtherEnds(files: FolderFiles, eos: number, tokens: readonly string[]): Record<string, GgufWritableValue> {
  const ids = files.readOptionalJson(GENERATION_CONFIG_FILE)['eos_token_id'];
  const others = (Array.isArray(ids) ? (ids as readonly unknown[]) : [])
    .filter((id): id is number => isId(id, tokens.length) && id !== eos)
    .filter((id) => !KNOWN_ENDS.has(tokens[id]!));
  if (others.length > 2)
    throw unsupportedFolder(
      `${GENERATION_CONFIG_FILE} has ${others.length} unusual end tokens; at most 2 are possible`,
    );
  return { ...idEntry('eot', others[0]), ...idEntry('eom', others[1]) };
}

/**
 * True or false for a start and an end token around every text, as the post-processor has them; otherwise as
 * tokenizer_config.json says.
 */
function addedAtEnds(files: FolderFiles, postProcessor: unknown, vocabSize: number): Record<string, GgufWritableValue> {
  const config = files.readOptionalJson(TOKENIZER_CONFIG_FILE);
  const ends: Partial<Record<'bos' | 'eos', boolean>> = {};
  for (const processor of processorsOf(postProcessor)) {
    if (processor['type'] === 'ByteLevel') {
      ends.bos ??= false;
      ends.eos ??= false;
    } else if (processor['type'] === 'TemplateProcessing') {
      const single = Array.isArray(processor['single']) ? (processor['single'] as readonly unknown[]) : [];
      const [first, last] = [single.at(0), single.at(-1)].map(specialTokenOf);
      if (single.length > 1 && first !== null) ends.bos = first === textOf(config['bos_token']);
      if (single.length > 1 && last !== null) ends.eos = last === textOf(config['eos_token']);
    } else
      throw unsupportedFolder(`the post-processor ${shown(processor['type'])} of ${TOKENIZER_FILE} is not supported`);
  }
  for (const end of ['bos', 'eos'] as const) {
    const value = config[`add_${end}_token`];
    if (typeof value === 'boolean') ends[end] ??= value;
  }
  // llama.cpp's converter does the same for vocabularies of this size, those of SmolLM and small Granite models.
  if (vocabSize === 49_152) ends.bos = false;
  return Object.fromEntries(Object.entries(ends).map(([end, value]) => [`tokenizer.ggml.add_${end}_token`, value]));
}

function processorsOf(postProcessor: unknown): readonly Fields[] {
  if (!isRecord(postProcessor)) return [];
  const list = postProcessor['type'] === 'Sequence' ? postProcessor['processors'] : [postProcessor];
  return Array.isArray(list) ? list.filter(isRecord) : [];
}

function specialTokenOf(piece: unknown): string | null {
  const token = isRecord(piece) ? piece['SpecialToken'] : undefined;
  return isRecord(token) && typeof token['id'] === 'string' ? token['id'] : null;
}

/** Text of a token, written plainly or as an object. */
function textOf(token: unknown): string | null {
  const text = isRecord(token) ? token['content'] : token;
  return typeof text === 'string' ? text : null;
}

function isId(value: unknown, vocabSize: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < vocabSize;
}

const idEntry = (name: string, id: number | undefined): Record<string, GgufWritableValue> =>
  id === undefined ? {} : { [`tokenizer.ggml.${name}_token_id`]: { u32: id } };
