import { pass, type Splitter } from './splitter.ts';

/*
 * Patterns of the models' own tokenizer files, under their names in GGUF files (`tokenizer.ggml.pre`). `(?i:…)`
 * groups are spelled out: case-insensitive matching would also fold U+017F to s.
 */
const DIGIT = String.raw`\p{N}`;
const CONTRACTION = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`;
const GPT2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const LINES_AND_SPACES = String.raw`\s*[\r\n]+|\s+(?!\S)|\s+`;
const LLAMA3 = String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|${LINES_AND_SPACES}`;
const QWEN2 = String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|${LINES_AND_SPACES}`;
const QWEN35 = String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|${LINES_AND_SPACES}`;

const UPPER = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const LOWER = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
/** Words that start a new piece at a change from lower to upper case. */
const cased = (suffix: string, digits: string) =>
  String.raw`[^\r\n\p{L}\p{N}]?${UPPER}*${LOWER}+${suffix}|[^\r\n\p{L}\p{N}]?${UPPER}+${LOWER}*${suffix}|${digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|${LINES_AND_SPACES}`;

const DEEPSEEK_V3 = String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_${'`'}{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|${LINES_AND_SPACES}`;
// Letters with two cases, as DeepSeek LLM lists them.
const DEEPSEEK_LETTERS = [
  String.raw`A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377`,
  String.raw`\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556`,
  String.raw`\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15`,
  String.raw`\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe`,
  String.raw`\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113`,
  String.raw`\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184`,
  String.raw`\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e`,
  String.raw`\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\u{10400}-\u{1044f}\u{104b0}-\u{104d3}`,
  String.raw`\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}`,
].join('');
const EAST_ASIAN = String.raw`[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+`;

const safe = (...patterns: string[]): Splitter => ({
  passes: patterns.map(pass),
  prefersWholeWords: false,
  isSafeInLlamaCpp: true,
});
const unsafe = (...patterns: string[]): Splitter => ({ ...safe(...patterns), isSafeInLlamaCpp: false });
const wholeWords = (splitter: Splitter): Splitter => ({ ...splitter, prefersWholeWords: true });

const GROUPS: readonly { names: readonly string[]; create: () => Splitter }[] = [
  {
    names: [
      'gpt-2',
      'phi-2',
      'jina-es',
      'jina-de',
      'jina-v2-es',
      'jina-v2-de',
      'jina-v2-code',
      'roberta-bpe',
      'mpt',
      'olmo',
      'jais',
      'trillion',
      'granite-docling',
    ],
    create: () => safe(GPT2),
  },
  {
    names: ['smollm', 'starcoder', 'refact', 'command-r', 'codeshell', 'exaone', 'minerva-7b'],
    create: () => safe(DIGIT, GPT2),
  },
  {
    names: ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'falcon-h1', 'pixtral', 'lfm2'],
    create: () => wholeWords(safe(LLAMA3)),
  },
  { names: ['chatglm-bpe', 'glm4', 'dbrx', 'smaug-bpe'], create: () => unsafe(LLAMA3) },
  { names: ['qwen2', 'deepseek-r1-qwen', 'stablelm2', 'hunyuan'], create: () => safe(QWEN2) },
  { names: ['qwen35'], create: () => safe(QWEN35) },
  { names: ['tekken'], create: () => wholeWords(unsafe(cased('', DIGIT))) },
  { names: ['gpt-4o', 'llama4'], create: () => unsafe(cased(`${CONTRACTION}?`, `${DIGIT}{1,3}`)) },
  {
    names: ['deepseek-llm'],
    create: () =>
      unsafe(
        String.raw`[\r\n]`,
        String.raw`\s?[${DEEPSEEK_LETTERS}]+`,
        String.raw`\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+`,
        String.raw`\s+$`,
        EAST_ASIAN,
        `${DIGIT}+`,
      ),
  },
  {
    names: ['deepseek-coder'],
    create: () => unsafe(String.raw`[\r\n]`, String.raw`\s?\p{L}+`, String.raw`\s?\p{P}+`, EAST_ASIAN, DIGIT),
  },
  {
    names: ['deepseek-v3', 'hunyuan-dense'],
    create: () => unsafe(`${DIGIT}{1,3}`, String.raw`[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+`, DEEPSEEK_V3),
  },
  { names: ['falcon'], create: () => unsafe(String.raw`[\p{P}$+<=>^~|${'`'}]+`, GPT2, '[0-9][0-9][0-9]') },
  { names: ['default'], create: () => unsafe(String.raw`[\p{P}$+<=>^~|]+`, GPT2, `${DIGIT}+`, '[0-9][0-9][0-9]') },
  { names: ['bloom', 'gpt3-finnish', 'poro-chat'], create: () => unsafe(String.raw` ?[^(\s|.,!?…。，、।۔،)]+`) },
  { names: ['viking'], create: () => unsafe(String.raw` ?[^(\s|.,!?…。，、।۔،)]+`, DIGIT) },
  {
    names: ['seed-coder'],
    create: () =>
      wholeWords(
        unsafe(String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|${LINES_AND_SPACES}`),
      ),
  },
];

/** Names as in `tokenizer.ggml.pre`. */
export const SPLITTER_NAMES: readonly string[] = GROUPS.flatMap(({ names }) => names);

export function splitterOf(name: string): Splitter | undefined {
  return GROUPS.find(({ names }) => names.includes(name))?.create();
}

/**
 * Patterns for other programs, in the order of application; matches are separate pieces. Null for an unknown
 * name, or if a pattern has JavaScript-only escapes.
 */
export function splitterPatterns(name: string): { patterns: string[]; prefersWholeWords: boolean } | null {
  const splitter = splitterOf(name);
  if (splitter === undefined) return null;
  const patterns = splitter.passes.map(({ source }) => source);
  const isPortable = patterns.every((pattern) => !pattern.includes(String.raw`\u`));
  return isPortable ? { patterns, prefersWholeWords: splitter.prefersWholeWords } : null;
}

/** Splitters that are recognised in tokenizer files, by their usual names. */
const RECOGNISED = ['gpt-2', 'smollm', 'llama-bpe', 'smaug-bpe', 'qwen2', 'qwen35', 'tekken', 'gpt-4o'];

/**
 * Name of the splitter with these patterns, as published in tokenizer files; null if there is none.
 *
 * @param patterns in the order of application
 */
export function splitterNameOf(patterns: readonly string[], prefersWholeWords: boolean): string | null {
  const wanted = patterns.map(plainPattern).join('\n');
  const isSame = (name: string) => {
    const splitter = splitterPatterns(name);
    if (splitter === null || splitter.prefersWholeWords !== prefersWholeWords) return false;
    return splitter.patterns.map(plainPattern).join('\n') === wanted;
  };
  return RECOGNISED.find(isSame) ?? null;
}

/** The same pattern in the one spelling that `pass` and published files share. */
function plainPattern(pattern: string): string {
  return pattern
    .replaceAll("(?i:'s|'t|'re|'ve|'m|'ll|'d)", CONTRACTION)
    .replaceAll(String.raw`\p{White_Space}`, String.raw`\s`)
    .replaceAll(String.raw`\P{White_Space}`, String.raw`\S`);
}

/** Pattern of GPT-2, which tokenizer files name instead of spelling it. */
export const GPT2_PATTERN = GPT2;
