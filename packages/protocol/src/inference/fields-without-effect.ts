import type { ChatCompletionField } from './chat-completion.ts';
import type { CompletionField } from './completion.ts';

/**
 * Fields that are read and checked, and change nothing here: they speak of images and sound, of prefill on another machine, of custom
 * samplers, or of nothing that a server acts on.
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
  // Nothing is put between control tokens either way: vocabularies of byte pairs have no joining space.
  'spaces_between_special_tokens',
] as const satisfies readonly (ChatCompletionField & (CompletionField | 'mm_processor_kwargs' | 'media_io_kwargs'))[];
