import type { FastifyRequest } from 'fastify';
import type { ChatCompletionRequest, Response, ResponseEvent, ResponsesRequest } from '@trainyard/protocol';
import type { AnswerKey } from '@trainyard/store';

import type { Completes } from '../../answers/idempotency.ts';
import { callerOf } from '../../edge/auth.ts';
import { detachRequest } from '../../edge/detached-request.ts';
import type { BackgroundWork } from '../../background/background-answers.ts';
import { conflict } from '../shared/conflict.ts';
import { replyBlocks } from '../shared/reply-blocks.ts';
import { queuedAnswer } from '../../background/answer-states.ts';
import { openingAnswer, toResponseEvents } from './answer.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { meteredChat, openChat } from '../chat/chat-generation.ts';
import { admitTurn, formatOf } from './admitted-turn.ts';

/**
 * Starts to compute an answer.
 * @returns the queued answer, and its chat
 * @throws {RequestError} as a foreground request, except for errors of the back end, which become the
 * answer's state
 */
export async function startInBackground(
  original: FastifyRequest,
  sent: ResponsesRequest,
  parts: RouteParts,
  completes?: Completes,
): Promise<{ key: AnswerKey; queued: Response; asked: ChatCompletionRequest }> {
  const { request, end } = detachRequest(original);
  try {
    const { turn, chat, asked } = await admitTurn(request, sent, parts);
    if (!turn.facts.isKept)
      throw parts.keepsAnswers
        ? conflict('background', 'background can only be used when `store` is true: the answer is read later')
        : conflict(
            'background',
            '`background: true` needs kept answers, but this service keeps none (--store-responses off)',
          );
    const format = formatOf({ turn, chat }, parts);
    const opening = openingAnswer(format);
    const queued = queuedAnswer(opening);
    const isStreamed = sent.stream === true;
    const first: ResponseEvent = { type: 'response.created', sequence_number: 0, response: queued };
    const answer = await turn.begin(queued, chat.model, { events: isStreamed ? [first] : [], completes });
    const run: BackgroundWork['run'] = async (signal, onEvent) => {
      let count = 0;
      try {
        await meteredChat(request, chat, parts, async (meter) => {
          const generation = await openChat(chat, signal, meter);
          for await (const event of toResponseEvents(replyBlocks(generation, chat.format), format, () => count++))
            await onEvent(event);
        });
      } finally {
        end.finish();
      }
    };
    const { keyId } = callerOf(request);
    parts.background.start({ answer, keyId, opening, isStreamed, turnOf: (ended) => turn.turnOf(ended), run });
    return { key: answer, queued, asked };
  } catch (error) {
    end.finish();
    throw error;
  }
}
