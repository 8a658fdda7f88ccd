import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { TokenizeInput } from '@trainyard/generation';
import {
  type DetokenizeRequest,
  DetokenizeRequestSchema,
  type DetokenizeResponse,
  normalizeTokenizeRequest,
  type TokenizeRequest,
  TokenizeRequestSchema,
  type TokenizeResponse,
  type TokenizerInfo,
} from '@trainyard/protocol';

import { callerOf } from '../../edge/auth.ts';
import { resolveModelName } from '../../contract/model-names.ts';
import type { RouteParts } from '../server-parts.ts';
import { abortOnDisconnect } from '../../answers/sse.ts';
import { toTokenizeInput } from '../../wire/chat/tokenize-request.ts';

/** POST /v1/tokenize and /v1/detokenize, GET /v1/tokenizer_info, also without /v1. */
export function tokenizeRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { inference, store, baseModels } = parts;
  const modelOf = (request: FastifyRequest, requested: string | null | undefined) =>
    resolveModelName(store, { requested, entity: callerOf(request).entity, baseModels });

  for (const path of ['/v1/tokenize', '/tokenize']) {
    app.post<{ Body: TokenizeRequest }>(
      path,
      {
        config: { scope: 'inference' },
        bodyLimit: parts.limits.chatBodyBytes,
        schema: { body: TokenizeRequestSchema },
        preValidation: async (request) => {
          request.body = normalizeTokenizeRequest(request.body) as TokenizeRequest;
        },
      },
      async (request, reply): Promise<TokenizeResponse> => {
        const signal = abortOnDisconnect(reply);
        const { body } = request;
        // All names stand for the same vocabulary and template, but only trained models are rendered as training renders them.
        const model = await modelOf(request, body.model);
        const input: TokenizeInput = toTokenizeInput(body, model);
        const withTexts = body.return_token_strs ?? false;
        const { tokenIds, texts } = await inference.tokenize(input, { withTexts, signal });
        const maxLength = model.base.contextLength;
        return { count: tokenIds.length, max_model_len: maxLength, tokens: tokenIds, token_strs: texts };
      },
    );
  }

  for (const path of ['/v1/detokenize', '/detokenize']) {
    app.post<{ Body: DetokenizeRequest }>(
      path,
      {
        config: { scope: 'inference' },
        bodyLimit: parts.limits.chatBodyBytes,
        schema: { body: DetokenizeRequestSchema },
      },
      async (request, reply): Promise<DetokenizeResponse> => {
        const signal = abortOnDisconnect(reply);
        await modelOf(request, request.body.model);
        return { prompt: await inference.detokenize(request.body.tokens, { signal }) };
      },
    );
  }

  for (const path of ['/v1/tokenizer_info', '/tokenizer_info']) {
    app.get(path, { config: { scope: 'inference' } }, async (_request, reply): Promise<TokenizerInfo> => {
      const signal = abortOnDisconnect(reply);
      const { chatTemplate, bosTokenId, eosTokenId, addsBos } = inference.tokenizerFacts();
      const textOf = (id: number) => inference.detokenize([id], { signal });
      return {
        tokenizer_class: 'PreTrainedTokenizerFast',
        model_max_length: baseModels.default.contextLength,
        chat_template: chatTemplate,
        bos_token: bosTokenId === null ? null : await textOf(bosTokenId),
        eos_token: await textOf(eosTokenId),
        pad_token: null,
        add_bos_token: addsBos,
      };
    });
  }
}
