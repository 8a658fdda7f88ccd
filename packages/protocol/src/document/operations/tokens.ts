import {
  GenerateTokensAnswerSchema,
  GenerateTokensChunkSchema,
  GenerateTokensRequestSchema,
} from '../../inference/token-generation.ts';
import {
  DetokenizeRequestSchema,
  DetokenizeResponseSchema,
  TokenizeRequestSchema,
  TokenizeResponseSchema,
  TokenizerInfoQuerySchema,
  TokenizerInfoSchema,
} from '../../inference/tokenize.ts';
import { BODY, HOST, IDEMPOTENCY, KEY, MODEL_NAME, type Operation, RENDERING, SAMPLING } from './operation-parts.ts';

/** Sampling in token ids. */
export const TOKEN_GENERATION_OPERATIONS: readonly Operation[] = [
  {
    id: 'generateTokens',
    method: 'post',
    paths: ['/inference/v1/generate'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Continue token ids',
    description:
      'Takes and returns token ids, without template or text, for clients that render prompts themselves and train on the sampled tokens. An unknown field is 400 with its name.',
    isIdempotent: true,
    body: GenerateTokensRequestSchema,
    answer: GenerateTokensAnswerSchema,
    chunk: GenerateTokensChunkSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, ...SAMPLING],
  },
];

/** The tokenizer of the model. */
export const TOKENIZER_OPERATIONS: readonly Operation[] = [
  {
    id: 'tokenize',
    method: 'post',
    paths: ['/v1/tokenize', '/tokenize'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Convert text or a conversation to token ids',
    description: 'Send exactly one of `prompt` and `messages`. A result longer than the context is not an error.',
    body: TokenizeRequestSchema,
    answer: TokenizeResponseSchema,
    faults: [...KEY, ...BODY, ...RENDERING],
  },
  {
    id: 'detokenize',
    method: 'post',
    paths: ['/v1/detokenize', '/detokenize'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Convert token ids to text',
    description: 'Control tokens appear as their text. Bytes that do not form a whole character become U+FFFD.',
    body: DetokenizeRequestSchema,
    answer: DetokenizeResponseSchema,
    faults: [...KEY, ...BODY, ...MODEL_NAME, ...HOST, 'engine.invalid_request'],
  },
  {
    id: 'tokenizerInfo',
    method: 'get',
    paths: ['/v1/tokenizer_info', '/tokenizer_info'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Read properties of the tokenizer',
    description: 'Uses the field names of a `tokenizer_config.json`.',
    query: TokenizerInfoQuerySchema,
    answer: TokenizerInfoSchema,
    faults: [...KEY, ...HOST, ...MODEL_NAME, 'request.invalid'],
  },
];
