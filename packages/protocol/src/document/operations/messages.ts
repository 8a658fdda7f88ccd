import {
  CountTokensRequestSchema,
  CountTokensSchema,
  MessageEventSchema,
  MessageSchema,
  MessagesErrorSchema,
  MessagesRequestSchema,
} from '../../inference/messages.ts';
import { BODY, IDEMPOTENCY, KEY, type Operation, PROMPT_LENGTH, RENDERING, SAMPLING } from './operation-parts.ts';

/** The Anthropic Messages API. */
export const MESSAGE_OPERATIONS: readonly Operation[] = [
  {
    id: 'createMessage',
    method: 'post',
    paths: ['/v1/messages'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Reply to a conversation (Anthropic Messages API)',
    description:
      'Works like a chat completion, in another format. Settings that the format lacks have the defaults of a chat completion. The key may be sent as `x-api-key`. An unknown field or unsupported value is 400 with the name of the field.',
    isIdempotent: true,
    body: MessagesRequestSchema,
    answer: MessageSchema,
    chunk: MessageEventSchema,
    isNamedStream: true,
    streamError: MessagesErrorSchema,
    error: MessagesErrorSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, ...SAMPLING],
  },
  {
    id: 'countMessageTokens',
    method: 'post',
    paths: ['/v1/messages/count_tokens'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Count the prompt tokens of a message request',
    description: PROMPT_LENGTH,
    body: CountTokensRequestSchema,
    answer: CountTokensSchema,
    error: MessagesErrorSchema,
    faults: [...KEY, ...BODY, ...RENDERING],
  },
];
