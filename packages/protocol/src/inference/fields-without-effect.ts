import type { ChatCompletionField } from './chat-completion.ts';
import type { CompletionField } from './completion.ts';

/**
 * Fields that are validated but have no effect: they concern images and sound, prefill on another machine,
 * custom samplers, or nothing that a server does.
 */
export const FIELDS_WITHOUT_EFFECT = [
  'user',
  'session_id',
  'mm_processor_kwargs',
  'media_io_kwargs',
  'kv_transfer_params',
  'ec_transfer_params',
  'vllm_xargs',
  'engine_xargs',
  // Byte-pair vocabularies have no joining space.
  'spaces_between_special_tokens',
] as const satisfies readonly (ChatCompletionField & (CompletionField | 'mm_processor_kwargs' | 'media_io_kwargs'))[];
