import {
  DeletedResponseSchema,
  InputItemPageSchema,
  InputItemQuerySchema,
  ResponseQuerySchema,
} from '../../inference/kept-responses.ts';
import {
  CountInputTokensRequestSchema,
  InputTokensSchema,
  ResponseEventSchema,
  ResponseSchema,
  ResponsesRequestSchema,
  ResponseStreamErrorSchema,
} from '../../inference/responses.ts';
import {
  BODY,
  IDEMPOTENCY,
  KEY,
  type Operation,
  PROMPT_LENGTH,
  RENDERING,
  RESPONSE_ID,
  SAMPLING,
  WRITES,
} from './operation-parts.ts';

/** Faults of requests that continue a kept conversation. */
const KEPT_TURN = ['previous_response_not_found', 'request.not_found', 'request.conflict'];

const UNKNOWN = ['previous_response_not_found'];
const OWN =
  'An answer is visible only to its own key, or to keys of the same owner in requests that name the same project. For others it does not exist.';

/** The OpenAI Responses API. */
export const RESPONSE_OPERATIONS: readonly Operation[] = [
  {
    id: 'createResponse',
    method: 'post',
    paths: ['/v1/responses'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Reply to a conversation (OpenAI Responses API)',
    description:
      'Works like a chat completion, in another format. The answer is kept for one day (`--store-responses`) unless `store` is false: `previous_response_id` continues it, and an `item_reference` names one of its items. `conversation` continues and extends a conversation of `/v1/conversations`. An unknown field or unsupported value is 400 with the name of the field.',
    isIdempotent: true,
    body: ResponsesRequestSchema,
    answer: ResponseSchema,
    chunk: ResponseEventSchema,
    isNamedStream: true,
    streamError: ResponseStreamErrorSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, ...SAMPLING, ...KEPT_TURN],
  },
  {
    id: 'countInputTokens',
    method: 'post',
    paths: ['/v1/responses/input_tokens'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Count the prompt tokens of a response',
    description: PROMPT_LENGTH,
    body: CountInputTokensRequestSchema,
    answer: InputTokensSchema,
    faults: [...KEY, ...BODY, ...RENDERING, ...KEPT_TURN],
  },
  {
    id: 'getResponse',
    method: 'get',
    paths: ['/v1/responses/{response_id}'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Read a kept answer',
    description: `Returns the answer as it was sent, or the current state of a background answer. \`stream=true\` streams the events of an answer created with \`background\` and \`stream\`. ${OWN}`,
    pathParameters: RESPONSE_ID,
    query: ResponseQuerySchema,
    answer: ResponseSchema,
    chunk: ResponseEventSchema,
    isNamedStream: true,
    streamError: ResponseStreamErrorSchema,
    faults: [...KEY, ...UNKNOWN, ...WRITES, 'request.invalid', 'request.conflict'],
  },
  {
    id: 'cancelResponse',
    method: 'post',
    paths: ['/v1/responses/{response_id}/cancel'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Cancel a background answer',
    description: `Returns the answer, \`cancelled\` unless it had already ended. An answer created without \`background: true\` is 400: close its connection instead. ${OWN}`,
    pathParameters: RESPONSE_ID,
    answer: ResponseSchema,
    faults: [...KEY, ...UNKNOWN, ...WRITES, 'request.conflict'],
  },
  {
    id: 'deleteResponse',
    method: 'delete',
    paths: ['/v1/responses/{response_id}'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Delete a kept answer',
    description: `Deletes the answer and its input. Later answers in the conversation keep their own copy of the text. ${OWN}`,
    pathParameters: RESPONSE_ID,
    answer: DeletedResponseSchema,
    faults: [...KEY, ...UNKNOWN, ...WRITES],
  },
  {
    id: 'listInputItems',
    method: 'get',
    paths: ['/v1/responses/{response_id}/input_items'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'List the input items of a kept answer',
    description: `Includes items of earlier turns, but not the instructions. ${OWN}`,
    pathParameters: RESPONSE_ID,
    query: InputItemQuerySchema,
    answer: InputItemPageSchema,
    faults: [...KEY, ...UNKNOWN, 'request.invalid', 'store.cursor_unknown'],
  },
];
