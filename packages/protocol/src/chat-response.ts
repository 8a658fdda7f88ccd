import type { ErrorObject } from './errors.ts';

/** What a choice says about one sampled token. Natural logarithms; −∞ is sent as −9999. */
export interface TokenLogprobEntry {
  /** The token's text, or `token_id:N`. */
  token: string;
  logprob: number;
  /** UTF-8 of the token's own bytes. */
  bytes: number[];
  top_logprobs: TopLogprobEntry[];
}
export interface TopLogprobEntry {
  token: string;
  logprob: number;
  bytes: number[];
}
export interface ChoiceLogprobs {
  /** One entry per sampled token, the end-of-turn token included. */
  content: TokenLogprobEntry[];
}

export type WireFinishReason = 'stop' | 'length' | 'tool_calls' | 'repetition' | 'abort';

export interface AssistantMessage {
  role: 'assistant';
  content: string | null;
  refusal: null;
  annotations: null;
  audio: null;
  function_call: null;
  /** Absent when no tool was called. */
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  reasoning: string | null;
}

export interface ChatCompletionChoice {
  index: number;
  message: AssistantMessage;
  logprobs: ChoiceLogprobs | null;
  finish_reason: WireFinishReason;
  /** The stop string or stop token id that ended it; null for the end of turn and for the length limit. */
  stop_reason: string | number | null;
  /** Every sampled id, the stopping one included; null unless asked for. */
  token_ids: number[] | null;
  routed_experts: null;
}

export interface CompletionUsage {
  /** The templated prompt, counted once even for several choices. */
  prompt_tokens: number;
  total_tokens: number;
  /** The sum over all choices. */
  completion_tokens: number;
  prompt_tokens_details: { cached_tokens: number } | null;
  completion_tokens_details: null;
}

/** The answer to a request without `stream`. Every key is present; what is unknown is null. */
export interface ChatCompletion {
  id: string;
  object: 'chat.completion';
  /** Unix seconds. */
  created: number;
  /** The resolved name: the base model's id, or `entity/project/name:stepN`. */
  model: string;
  choices: ChatCompletionChoice[];
  service_tier: null;
  /** Names the exact weights: `trainyard-<version>-<8 hex digits of the adapter's digest | base>`. */
  system_fingerprint: string;
  usage: CompletionUsage;
  prompt_logprobs: null;
  prompt_token_ids: number[] | null;
  prompt_text: null;
  kv_transfer_params: null;
  ec_transfer_params: null;
  metrics: null;
}

/** One choice of a chunk. `stop_reason` is present only when `finish_reason` is not null. */
export interface ChunkChoice {
  index: number;
  delta: { role?: 'assistant'; content?: string };
  logprobs: ChoiceLogprobs | null;
  finish_reason: WireFinishReason | null;
  token_ids?: number[] | null;
  stop_reason?: string | number | null;
}

/** `usage` of a chunk: like {@link CompletionUsage} without its null members. */
export interface ChunkUsage {
  prompt_tokens: number;
  total_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens: number };
}

/** One event of a stream; the last event is the literal `[DONE]`. */
export interface ChatCompletionChunk {
  id: string;
  object: 'chat.completion.chunk';
  created: number;
  model: string;
  /** Empty in the usage chunk. */
  choices: ChunkChoice[];
  /** Only in the first chunk of a choice. */
  prompt_token_ids?: number[] | null;
  prompt_text?: null;
  system_fingerprint?: string;
  usage?: ChunkUsage;
}

/** What a stream sends when it fails after its headers; `[DONE]` follows. */
export interface StreamError {
  error: ErrorObject;
}

/** GET /v1/models. */
export interface ModelList {
  object: 'list';
  data: ModelCard[];
}
export interface ModelCard {
  id: string;
  object: 'model';
  /** Unix seconds. */
  created: number;
  owned_by: string;
  root: string;
  /** The base model's id, for a trained model. */
  parent: string | null;
  max_model_len: number;
  permission: ModelPermission[];
}
export interface ModelPermission {
  id: string;
  object: 'model_permission';
  created: number;
  allow_create_engine: false;
  allow_sampling: true;
  allow_logprobs: true;
  allow_search_indices: false;
  allow_view: true;
  allow_fine_tuning: boolean;
  organization: '*';
  group: null;
  is_blocking: false;
}
