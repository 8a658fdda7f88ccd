import {
  anyOf,
  boolean,
  exactly,
  type Form,
  integer,
  listOf,
  number,
  oneOf,
  optionalMembers,
  text,
  type ValueOf,
} from './form.ts';
import { LOGPROBS_MODES, logprobsModeOf } from './logprobs-mode.ts';
import { REQUEST_LIMITS } from './request-limits.ts';

/**
 * Fields that shape a reply, other than its prompt: one row per field, and the only place with its request
 * name, internal name, limits, default and description. Request schemas, descriptions and parsing, the
 * engine's parameter types, defaults and checks, and training's test for a changed distribution derive from
 * these rows. Limits and nullability follow vLLM.
 */

/**
 * Requests with a field: chats, text completions, OpenAI's responses, Anthropic's messages, tokens in and
 * out.
 */
export type RequestForm = 'chat' | 'completion' | 'responses' | 'messages' | 'tokens';

const EVERYWHERE = ['chat', 'completion', 'responses', 'messages', 'tokens'] as const;
const NOT_MESSAGES = ['chat', 'completion', 'responses', 'tokens'] as const;
const VLLM = ['chat', 'completion', 'tokens'] as const;
const TEXT = ['chat', 'completion'] as const;
/** Forms for fields that a token request has next to its sampling parameters, or uses in another way. */
const WITH_ENVELOPE = ['chat', 'completion', 'responses'] as const;

/** Part of the distribution that a setting changes. */
export type DistributionChange = 'temperature' | 'truncation' | 'penalties';

export interface SamplingRow {
  readonly forms: readonly RequestForm[];
  /** Form in a request. */
  readonly form: Form<unknown>;
  /** False: null is refused, as in vLLM. Default: null means the default. */
  readonly isNullable?: false;
  /** Description for clients, with the default. */
  readonly words: string;
  /** Internal name; absent if only the translation of requests uses it. */
  readonly name?: string;
  /** Owner of the parameter: the sampled distribution, a sample in tokens, or a reply as text. */
  readonly of?: 'sampling' | 'tokens' | 'text';
  /** Default of the parameter. Absent: the translation of requests computes it from further fields. */
  readonly default?: unknown;
  /** Converts a request value to the parameter. Default: identity. */
  readonly read?: (value: never) => unknown;
  /** Limits of the parameter, if narrower than in a request. */
  readonly param?: Form<unknown>;
  /** Set for numbers in `sampling` whose default changes nothing. */
  readonly changes?: DistributionChange;
}

/** Minimum against overflow; vLLM raises lower temperatures in the same way when it reads a request. */
const MIN_TEMPERATURE = 0.01;
const MAX_TEMPERATURE = 2;

/** Ends a choice whose last tokens repeat one pattern. Only generated tokens count. */
export interface RepetitionDetection {
  /** Maximum length of the pattern, tokens; 0 = off. */
  readonly maxPatternSize: number;
  /** 0 counts as 1. */
  readonly minPatternSize: number;
  /** Consecutive occurrences that end the choice, at least 2. */
  readonly minCount: number;
}

const Repetition = optionalMembers({
  max_pattern_size: integer({ minimum: 0 }),
  min_pattern_size: integer({ minimum: 0 }),
  min_count: integer({ minimum: 0 }),
});

function readRepetition(sent: ValueOf<typeof Repetition>): RepetitionDetection | null {
  const { max_pattern_size: maxPatternSize = 0, min_pattern_size: minPatternSize = 0, min_count: minCount = 0 } = sent;
  return maxPatternSize === 0 && minPatternSize === 0 ? null : { maxPatternSize, minPatternSize, minCount };
}

const TokenId = integer({ minimum: 0 });
const StopString = text({ minLength: 1, maxLength: REQUEST_LIMITS.stopCharacters });

export const SAMPLING_FIELDS = {
  frequency_penalty: {
    forms: NOT_MESSAGES,
    form: number({ minimum: -2, maximum: 2 }),
    words: 'Subtracted from the logit of a token for each time it was generated. Default 0.',
    name: 'frequencyPenalty',
    of: 'sampling',
    default: 0,
    changes: 'penalties',
  },
  presence_penalty: {
    forms: NOT_MESSAGES,
    form: number({ minimum: -2, maximum: 2 }),
    words: 'Subtracted from the logit of each token that was generated. Default 0.',
    name: 'presencePenalty',
    of: 'sampling',
    default: 0,
    changes: 'penalties',
  },
  /** Maps token ids in decimal to values added to the logit (clamped to [-100, 100]). */
  logit_bias: {
    forms: NOT_MESSAGES,
    form: {
      type: 'object',
      propertyNames: { pattern: '^-?[0-9]+$' },
      additionalProperties: { type: 'number' },
    } as Form<Record<string, number>>,
    words:
      'Values to add to logits, by decimal token id; clamped to [-100, 100]. If an id is spelled in several ways, the last one applies.',
    name: 'logitBias',
    of: 'sampling',
  },
  n: {
    forms: VLLM,
    form: integer({ minimum: 1, maximum: REQUEST_LIMITS.choices }),
    words: 'Number of choices to sample. Must be 1 if `temperature` is 0. Default 1.',
    name: 'n',
    of: 'tokens',
    default: 1,
  },
  /** Signed 64 bits. JSON numbers beyond 2^53 arrive as digits, see `normalizeChatCompletionRequest`. */
  seed: {
    forms: NOT_MESSAGES,
    form: anyOf(
      integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
      text({ pattern: '^-?[0-9]{1,19}$' }),
    ),
    words:
      'Seed of 64 bits. The same request with the same seed gives the same tokens; choice i uses `seed + i`. -1 means no seed.',
    name: 'seed',
    of: 'sampling',
  },
  stop: {
    forms: NOT_MESSAGES,
    form: anyOf(StopString, listOf(StopString, { maxItems: REQUEST_LIMITS.stopStrings })),
    words: 'Strings that end the reply. They are not part of it.',
    name: 'stop',
    of: 'text',
    default: [],
    param: listOf(StopString),
    read: (stop: string | string[]): readonly string[] => (typeof stop === 'string' ? [stop] : stop),
  },
  temperature: {
    forms: EVERYWHERE,
    form: number({ minimum: 0, maximum: MAX_TEMPERATURE }),
    words: 'Divisor of the logits. 0 samples greedily; other values below 0.01 are raised to 0.01. Default 1.',
    name: 'temperature',
    of: 'sampling',
    default: 1,
    read: (temperature: number) => (temperature === 0 ? 0 : Math.max(temperature, MIN_TEMPERATURE)),
    param: anyOf(exactly(0), number({ minimum: MIN_TEMPERATURE, maximum: MAX_TEMPERATURE })),
    changes: 'temperature',
  },
  top_p: {
    forms: EVERYWHERE,
    form: number({ exclusiveMinimum: 0, maximum: 1 }),
    words: 'Keep the most likely tokens whose probabilities add up to this mass. Default 1 (off).',
    name: 'topP',
    of: 'sampling',
    default: 1,
    changes: 'truncation',
  },
  use_beam_search: {
    forms: TEXT,
    form: boolean(),
    isNullable: false,
    words: 'Use beam search instead of sampling. Default false.',
  },
  top_k: {
    forms: EVERYWHERE,
    form: integer({ minimum: -1 }),
    words: 'Keep the k most likely tokens. 0 (the default) and -1 turn it off.',
    name: 'topK',
    of: 'sampling',
    default: 0,
    read: (k: number) => Math.max(k, 0),
    param: integer({ minimum: 0 }),
    changes: 'truncation',
  },
  min_p: {
    forms: NOT_MESSAGES,
    form: number({ minimum: 0, maximum: 1 }),
    words: 'Drop tokens less likely than this share of the most likely one. Default 0, off.',
    name: 'minP',
    of: 'sampling',
    default: 0,
    changes: 'truncation',
  },
  /** A field of this service, as in llama.cpp. */
  top_n_sigma: {
    forms: NOT_MESSAGES,
    form: number({ minimum: 0 }),
    words:
      'Keep the tokens whose logits are at most this many standard deviations of all logits below the highest one. Independent of the temperature. Default 0 (off).',
    name: 'topNSigma',
    of: 'sampling',
    default: 0,
    changes: 'truncation',
  },
  repetition_penalty: {
    forms: NOT_MESSAGES,
    form: number({ exclusiveMinimum: 0 }),
    words: 'Positive logits of tokens in the prompt or reply are divided by it, negative ones multiplied. Default 1.',
    name: 'repetitionPenalty',
    of: 'sampling',
    default: 1,
    changes: 'penalties',
  },
  length_penalty: {
    forms: TEXT,
    form: number(),
    isNullable: false,
    words: 'Exponent of the length in beam search. Default 1.',
    name: 'beamSearch',
    of: 'tokens',
  },
  stop_token_ids: {
    forms: NOT_MESSAGES,
    form: listOf(TokenId, { maxItems: REQUEST_LIMITS.stopTokenIds }),
    words: 'Token ids that end the reply.',
    name: 'stopTokenIds',
    of: 'tokens',
    default: [],
    read: (ids: number[]): readonly number[] => [...new Set(ids)],
  },
  include_stop_str_in_output: {
    forms: NOT_MESSAGES,
    form: boolean(),
    isNullable: false,
    words: 'Include the stop string in the reply. Default false.',
    name: 'includeStopString',
    of: 'tokens',
    default: false,
  },
  ignore_eos: {
    forms: NOT_MESSAGES,
    form: boolean(),
    isNullable: false,
    words: 'Continue after the end-of-turn token. Default false.',
    name: 'ignoreEos',
    of: 'tokens',
    default: false,
  },
  min_tokens: {
    forms: NOT_MESSAGES,
    form: integer({ minimum: 0 }),
    isNullable: false,
    words: 'Minimum number of tokens before the reply may end. Default 0.',
    name: 'minTokens',
    of: 'tokens',
    default: 0,
  },
  skip_special_tokens: {
    forms: WITH_ENVELOPE,
    form: boolean(),
    words: 'Omit control tokens from the text; ids and log-probabilities include them. Default true.',
    name: 'skipSpecialTokens',
    of: 'text',
    default: true,
  },
  /** Has no effect: byte-pair vocabularies have no joining space. */
  spaces_between_special_tokens: {
    forms: VLLM,
    form: boolean(),
    isNullable: false,
    words: 'Has no effect: nothing is inserted between control tokens. Default true.',
  },
  truncate_prompt_tokens: {
    forms: TEXT,
    form: integer({ minimum: -1 }),
    words:
      'Maximum number of prompt tokens to keep, from 1 to the context length. -1 keeps as many as leave space for the reply.',
    name: 'truncatePromptTokens',
    of: 'text',
    default: null,
  },
  truncation_side: {
    forms: TEXT,
    form: oneOf('left', 'right'),
    words: 'Side of the prompt to truncate. Default `left`.',
    name: 'truncationSide',
    of: 'text',
    default: 'left',
  },
  prompt_logprobs: {
    forms: VLLM,
    form: integer({ minimum: -1 }),
    words: 'Return log-probabilities of the prompt tokens.',
    name: 'promptLogprobs',
    of: 'tokens',
  },
  allowed_token_ids: {
    forms: VLLM,
    form: listOf(TokenId),
    words: 'Only these token ids may be sampled.',
    name: 'allowedTokenIds',
    of: 'tokens',
    default: null,
  },
  bad_words: {
    forms: VLLM,
    form: listOf(text({ minLength: 1 }), { maxItems: REQUEST_LIMITS.badWords }),
    isNullable: false,
    words: 'Strings that must not be generated.',
    name: 'badWords',
    of: 'text',
    default: [],
  },
  repetition_detection: {
    forms: VLLM,
    form: Repetition,
    words: 'Ends a reply that repeats itself.',
    name: 'repetitionDetection',
    of: 'tokens',
    default: null,
    read: readRepetition,
  },
  logprob_token_ids: {
    forms: VLLM,
    form: listOf(TokenId, { maxItems: REQUEST_LIMITS.logprobTokenIds }),
    words:
      'Token ids to report log-probabilities for at each position, in this order after the sampled token, instead of the most likely tokens. Requires `logprobs`.',
    name: 'logprobTokenIds',
    of: 'tokens',
    default: null,
    read: (ids: number[]): readonly number[] | null => (ids.length === 0 ? null : ids),
  },
  thinking_token_budget: {
    forms: ['chat', 'responses'],
    form: integer({ minimum: -1 }),
    words:
      'Maximum number of reasoning tokens; then `</think>` is forced. Default -1 (no limit). Has no effect on models without reasoning.',
    name: 'thinkingTokenBudget',
    of: 'text',
    default: null,
    read: (budget: number) => (budget === -1 ? null : budget),
    param: integer({ minimum: 0 }),
  },
  priority: {
    forms: WITH_ENVELOPE,
    form: integer(),
    isNullable: false,
    words: 'Lower values run first; equal values run in order of arrival. Default 0.',
    name: 'priority',
    of: 'tokens',
    default: 0,
  },
  // Longer or structured salts would be ambiguous inside the cache's namespace key.
  cache_salt: {
    forms: WITH_ENVELOPE,
    form: text({ minLength: 1, maxLength: 128, pattern: '^[^@/\\\\\\u0000]*$' }),
    words: 'Requests share cached prefixes only if they have the same salt.',
    name: 'cacheSalt',
    of: 'tokens',
    default: null,
  },
  /** A field of this service. */
  logprobs_mode: {
    forms: VLLM,
    form: oneOf(...LOGPROBS_MODES),
    words:
      'Values in the log-probability fields: log-probabilities of the model (`raw_logprobs`, the default) or of the distribution after temperature, penalties and truncation (`processed_logprobs`), or the logits of either (`raw_logits`, `processed_logits`).',
    name: 'logprobsMode',
    of: 'tokens',
    default: 'raw',
    read: logprobsModeOf,
    param: oneOf('raw', 'processed', 'raw_logits', 'processed_logits'),
  },
} as const satisfies Readonly<Record<string, SamplingRow>>;

type Rows = typeof SAMPLING_FIELDS;
/** Name in a request. */
export type SamplingField = keyof Rows;

/** Fields of a form of request. */
export type SamplingFieldOf<F extends RequestForm> = {
  [Field in SamplingField]: F extends Rows[Field]['forms'][number] ? Field : never;
}[SamplingField];

type NullOf<Row> = Row extends { readonly isNullable: false } ? never : null;

/** Value of a field in a request. */
export type SamplingValue<Field extends SamplingField> = ValueOf<Rows[Field]['form']> | NullOf<Rows[Field]>;

/** Fields of the table in a request. */
export type SamplingFields<F extends RequestForm = 'chat'> = {
  [Field in SamplingFieldOf<F>]?: SamplingValue<Field> | undefined;
};

/** Owner of a field's parameter. */
export type ParamOwner = NonNullable<SamplingRow['of']>;
