import { ChatCompletionRequestSchema } from '../../inference/chat-completion.ts';
import { ChatCompletionChunkSchema, ChatCompletionSchema } from '../../inference/chat-response.ts';
import { CompletionChunkSchema, CompletionRequestSchema, CompletionSchema } from '../../inference/completion.ts';
import { BODY, IDEMPOTENCY, KEY, type Operation, SAMPLING } from './operation-parts.ts';

/** Chat and text completions. */
export const COMPLETION_OPERATIONS: readonly Operation[] = [
  {
    id: 'createChatCompletion',
    method: 'post',
    paths: ['/v1/chat/completions'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Reply to a conversation',
    description:
      'Renders the messages with the chat template of the model and samples replies. With `stream: true`, the answer is a stream of server-sent events that ends with `[DONE]`. A failure after the first byte is sent as an event `{"error": …}`.',
    isIdempotent: true,
    body: ChatCompletionRequestSchema,
    answer: ChatCompletionSchema,
    chunk: ChatCompletionChunkSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, ...SAMPLING],
  },
  {
    id: 'createCompletion',
    method: 'post',
    paths: ['/v1/completions'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Continue a text',
    description:
      'Continues each prompt without a template. With several prompts, choice i of prompt p has the index p × n + i.',
    isIdempotent: true,
    body: CompletionRequestSchema,
    answer: CompletionSchema,
    chunk: CompletionChunkSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, ...SAMPLING],
  },
];
