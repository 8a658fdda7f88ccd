import {
  DeletedResponseSchema,
  InputItemPageSchema,
  InputItemQuerySchema,
  ResponseQuerySchema,
} from '../inference/kept-responses.ts';
import { ResponseEventSchema, ResponseSchema, ResponseStreamErrorSchema } from '../inference/responses.ts';
import { KEY, type Operation, RESPONSE_ID, WRITES } from './operation-parts.ts';

/** Faults of requests that continue a kept conversation. */
export const KEPT_TURN = ['previous_response_not_found', 'request.not_found', 'request.conflict'];

const UNKNOWN = ['previous_response_not_found'];
const OWN = 'Answers of other keys count as unknown, unless the keys have one owner and the requests name one project.';

export const KEPT_RESPONSE_OPERATIONS: readonly Operation[] = [
  {
    id: 'getResponse',
    method: 'get',
    paths: ['/v1/responses/{response_id}'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Read a kept answer',
    description: `The answer as the request got it; of an answer in the background its present state. With \`stream=true\` the events of an answer that was made with \`background\` and \`stream\`, as they come. ${OWN}`,
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
    summary: 'Cancel an answer in the background',
    description: `Answers with the answer, \`cancelled\` unless it had ended before. An answer that was not made with \`background: true\` is 400: end its connection. ${OWN}`,
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
    description: `Removes the answer and its input. Later answers of the conversation keep their own copy of the text. ${OWN}`,
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
    summary: 'List the items of the prompt of a kept answer',
    description: `Items of earlier turns included, instructions not. ${OWN}`,
    pathParameters: RESPONSE_ID,
    query: InputItemQuerySchema,
    answer: InputItemPageSchema,
    faults: [...KEY, ...UNKNOWN, 'request.invalid', 'store.cursor_unknown'],
  },
];
