import type { ChatCompletionField } from './chat-completion.ts';
import { type CompletionField, CompletionRequestSchema } from './completion.ts';

/** A field that is read and checked but not honoured yet. */
export interface UnimplementedField {
  /** The value that asks for nothing; it and `null` are accepted. */
  default: unknown;
  /** Other values that ask for nothing, for example `response_format: {type: 'text'}`. */
  isInert?: (value: unknown) => boolean;
}

/**
 * Fields of a chat completion that the service cannot honour yet. Any other value than the default is refused by name
 * (400 `request.unsupported`): a field is never ignored silently.
 */
export const UNIMPLEMENTED_FIELDS = {
  response_format: { default: null, isInert: (value) => member(value, 'type') === 'text' },
  parallel_tool_calls: { default: true },
  reasoning_effort: { default: null },
  use_beam_search: { default: false },
  length_penalty: { default: 1 },
  spaces_between_special_tokens: { default: true },
  truncate_prompt_tokens: { default: null },
  truncation_side: { default: null },
  prompt_logprobs: { default: null },
  allowed_token_ids: { default: null },
  bad_words: { default: [], isInert: (value) => Array.isArray(value) && value.length === 0 },
  // No pattern size means that nothing is looked for.
  repetition_detection: {
    default: null,
    isInert: (value) =>
      typeof value === 'object' && !member(value, 'max_pattern_size') && !member(value, 'min_pattern_size'),
  },
  logprob_token_ids: { default: null },
  thinking_token_budget: { default: null },
  echo: { default: false },
  add_generation_prompt: { default: true },
  continue_final_message: { default: false },
  add_special_tokens: { default: false },
  documents: { default: null },
  chat_template: { default: null },
  mm_processor_kwargs: { default: null, isInert: isEmptyObject },
  media_io_kwargs: { default: null, isInert: isEmptyObject },
  include_reasoning: { default: true },
  structured_outputs: { default: null },
  return_prompt_text: { default: false },
  stream_interval: { default: 1 },
  kv_transfer_params: { default: null, isInert: isEmptyObject },
  ec_transfer_params: { default: null, isInert: isEmptyObject },
  vllm_xargs: { default: null, isInert: isEmptyObject },
} as const satisfies Partial<Record<ChatCompletionField, UnimplementedField>>;

/** Removed from vLLM, where they are ignored: an unconstrained answer to a constrained question. Here they are refused by name. */
export const REMOVED_FIELD_PREFIX = 'guided_';

/** What a text completion has for itself; the fields it shares with a chat are honoured or refused as there. */
const UNIMPLEMENTED_TEXT_FIELDS = {
  suffix: { default: null },
  best_of: { default: 1 },
  prompt_embeds: { default: null },
  prompt_logprobs: { default: null },
} as const satisfies Partial<Record<CompletionField, UnimplementedField>>;

/** Fields of a text completion that the service cannot honour yet. */
export const UNIMPLEMENTED_COMPLETION_FIELDS: Readonly<Record<string, UnimplementedField>> = {
  ...Object.fromEntries(
    Object.entries(UNIMPLEMENTED_FIELDS).filter(
      // A text is echoed as it is, and nothing but this field decides how it begins.
      ([name]) =>
        Object.hasOwn(CompletionRequestSchema.properties, name) && name !== 'echo' && name !== 'add_special_tokens',
    ),
  ),
  ...UNIMPLEMENTED_TEXT_FIELDS,
};

/** The first field of the body that asks for something the service does not do, or null. */
export function unsupportedField(
  body: Readonly<Record<string, unknown>>,
  table: Readonly<Record<string, UnimplementedField>> = UNIMPLEMENTED_FIELDS,
): string | null {
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith(REMOVED_FIELD_PREFIX)) return name;
    const field = Object.hasOwn(table, name) ? table[name] : undefined;
    if (field && value !== field.default && !field.isInert?.(value)) return name;
  }
  return null;
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
