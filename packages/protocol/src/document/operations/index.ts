import { ADAPTER_OPERATIONS } from './adapters.ts';
import { ARTIFACT_OPERATIONS } from './artifacts.ts';
import { BASE_MODEL_OPERATIONS } from './base-models.ts';
import { COMPLETION_OPERATIONS } from './completions.ts';
import { CONVERSATION_OPERATIONS } from './conversations.ts';
import { EXPORT_OPERATIONS } from './exports.ts';
import { KEY_OPERATIONS } from './keys.ts';
import { LORA_ADAPTER_OPERATIONS } from './lora-adapters.ts';
import { MESSAGE_OPERATIONS } from './messages.ts';
import { MODEL_OPERATIONS } from './models.ts';
import type { Operation } from './operation-parts.ts';
import { PAGE_OPERATIONS } from './pages.ts';
import { READ_OPERATIONS } from './reading.ts';
import { RESPONSE_OPERATIONS } from './responses.ts';
import { SERVICE_STATUS_OPERATIONS } from './service-status.ts';
import { SESSION_OPERATIONS } from './sessions.ts';
import { TOKEN_GENERATION_OPERATIONS, TOKENIZER_OPERATIONS } from './tokens.ts';
import { NEW_TRAINING_JOB_OPERATIONS, TRAINING_JOB_OPERATIONS } from './training-jobs.ts';

/** Operations of the API, in the order of its reference. */
export const OPERATIONS: readonly Operation[] = [
  ...COMPLETION_OPERATIONS,
  ...RESPONSE_OPERATIONS,
  ...CONVERSATION_OPERATIONS,
  ...TOKEN_GENERATION_OPERATIONS,
  ...MESSAGE_OPERATIONS,
  ...TOKENIZER_OPERATIONS,
  ...LORA_ADAPTER_OPERATIONS,
  ...MODEL_OPERATIONS,
  ...BASE_MODEL_OPERATIONS,
  ...NEW_TRAINING_JOB_OPERATIONS,
  ...ARTIFACT_OPERATIONS,
  ...TRAINING_JOB_OPERATIONS,
  ...EXPORT_OPERATIONS,
  ...ADAPTER_OPERATIONS,
  ...READ_OPERATIONS,
  ...KEY_OPERATIONS,
  ...SESSION_OPERATIONS,
  ...SERVICE_STATUS_OPERATIONS,
  ...PAGE_OPERATIONS,
];
