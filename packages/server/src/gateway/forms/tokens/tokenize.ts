import type { FastifyInstance } from 'fastify';
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
  type TokenizerInfoQuery,
  TokenizerInfoQuerySchema,
} from '@trainyard/protocol';

import type { RouteParts } from '../../parts/server-parts.ts';
import { abortOnDisconnect } from '../../answers/sse.ts';
import { toReadableChat } from '../../../seams/chat/readable-results.ts';
import { reportLeftOut } from '../../../seams/chat/left-out.ts';
import { toTokenizeInput } from '../chat/tokenize-request.ts';
import { requestedModel } from '../generation/requested-model.ts';
import { normalizedBody } from '../generation/normalized-body.ts';

/** POST /v1/tokenize and /v1/detokenize, GET /v1/tokenizer_info, also without /v1. */
export function tokenizeRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { inference } = parts;

  for (const path of ['/v1/tokenize', '/tokenize']) {
    app.post<{ Body: TokenizeRequest }>(
      path,
      {
        config: { scope: 'inference' },
        bodyLimit: parts.limits.chatBodyBytes,
        schema: { body: TokenizeRequestSchema },
        preValidation: normalizedBody(normalizeTokenizeRequest),
      },
      async (request, reply): Promise<TokenizeResponse> => {
        const signal = abortOnDisconnect(reply);
        const body = toReadableChat(request.body);
        reportLeftOut(reply, body);
        const model = await requestedModel(request, body.model, parts);
        const input: TokenizeInput = toTokenizeInput(body);
        const withTexts = body.return_token_strs ?? false;
        const { tokenIds, texts } = await inference.of(model.base.id).tokenize(input, { withTexts, signal });
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
        const { base } = await requestedModel(request, request.body.model, parts);
        return { prompt: await inference.of(base.id).detokenize(request.body.tokens, { signal }) };
      },
    );
  }

  for (const path of ['/v1/tokenizer_info', '/tokenizer_info']) {
    app.get<{ Querystring: TokenizerInfoQuery }>(
      path,
      { config: { scope: 'inference' }, schema: { querystring: TokenizerInfoQuerySchema } },
      async (request, reply): Promise<TokenizerInfo> => {
        const signal = abortOnDisconnect(reply);
        const { base } = await requestedModel(request, request.query.model, parts);
        const model = inference.of(base.id);
        const { chatTemplate, bosTokenId, eosTokenId, addsBos } = model.tokenizerFacts();
        const textOf = (id: number) => model.detokenize([id], { signal });
        return {
          tokenizer_class: 'PreTrainedTokenizerFast',
          model_max_length: base.contextLength,
          chat_template: chatTemplate,
          bos_token: bosTokenId === null ? null : await textOf(bosTokenId),
          eos_token: await textOf(eosTokenId),
          pad_token: null,
          add_bos_token: addsBos,
        };
      },
    );
  }
}
