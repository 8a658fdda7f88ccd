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

/** Removed from vLLM, where they are ignored: an unconstrained answer to a constrained question. Here they are refused by name. */
const REMOVED_FIELD_PREFIX = 'guided_';

/** The first field of the body that once constrained replies and does so no more, or null. One that asks for nothing passes. */
export function removedField(body: Readonly<Record<string, unknown>>): string | null {
  return Object.keys(body).find((name) => name.startsWith(REMOVED_FIELD_PREFIX) && !asksForNothing(body[name])) ?? null;
}

function asksForNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
