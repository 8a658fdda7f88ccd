import type { FinishReason, TokenLogprob } from '@trainyard/backend';
import type { Usage } from '@trainyard/generation';

import type { OpenedGeneration, OutputEvent } from '../../../seams/streams/chat-events.ts';

/** A part of a reply, in the order in which the model wrote it: reasoning, text, calls. */
export type ReplyBlock = { kind: 'reasoning' } | { kind: 'text' } | { kind: 'call'; id: string; name: string };

export interface ReplyEnd {
  finishReason: FinishReason;
  /** Stop string or stop token id that ended it. */
  stopReason: string | number | null;
  hasCalls: boolean;
  recordId: string | null;
  usage: Usage;
}

/** An event of a reply's blocks. One block is open at a time; `index` counts them. */
export type BlockEvent =
  | { kind: 'opened'; index: number; block: ReplyBlock }
  | { kind: 'grown'; index: number; block: ReplyBlock; text: string; logprobs: readonly TokenLogprob[] }
  | { kind: 'closed'; index: number; block: ReplyBlock; text: string; logprobs: readonly TokenLogprob[] }
  | ({ kind: 'ended' } & ReplyEnd);

/**
 * Converts the one choice of a generation to blocks. An empty reply has one empty text block. Leaving the
 * loop ends the generation.
 * @param options.hasReasoning false drops reasoning
 */
export async function* replyBlocks(
  generation: OpenedGeneration,
  options: { hasReasoning: boolean },
): AsyncGenerator<BlockEvent, void> {
  const blocks = new BlockRecord();
  let finished: Extract<OutputEvent, { kind: 'finished' }> | null = null;
  try {
    for await (const event of generation.events) {
      if (event.kind === 'completed') {
        if (finished === null) throw new Error('a generation completed before its choice did');
        if (!blocks.hasSpoken) yield* blocks.grow({ kind: 'text' }, '', []);
        yield* blocks.close();
        const { finishReason, stopReason, recordId = null } = finished;
        yield { kind: 'ended', finishReason, stopReason, recordId, hasCalls: blocks.hasCalls, usage: event.usage };
        return;
      }
      if (event.kind === 'finished') finished = event;
      yield* blocks.read(event, options.hasReasoning);
    }
    throw new Error('a generation ended without its last event');
  } finally {
    // If the reader left before the first event, the loop above has not ended the generation.
    await generation.end();
  }
}

class BlockRecord {
  hasCalls = false;
  /** True after any output other than reasoning. */
  hasSpoken = false;
  #open: { index: number; block: ReplyBlock; callIndex: number | null; text: string; logprobs: TokenLogprob[] } | null =
    null;
  #count = 0;
  /** Log-probabilities of tokens with held-back text. */
  #pending: TokenLogprob[] = [];

  *read(event: OutputEvent, hasReasoning: boolean): Generator<BlockEvent, void> {
    const { content, reasoning, toolCalls } = event.reply ?? { content: event.text, reasoning: '', toolCalls: [] };
    this.#pending.push(...(event.logprobs ?? []));
    if (reasoning !== '') {
      if (hasReasoning) yield* this.grow({ kind: 'reasoning' }, reasoning, []);
      this.#pending = [];
    }
    if (content !== '') yield* this.grow({ kind: 'text' }, content, this.#take());
    for (const call of toolCalls) {
      if (this.#open?.callIndex !== call.index) {
        const { id = '', name = '' } = call;
        yield* this.#begin({ kind: 'call', id, name }, call.index);
      }
      if (call.arguments !== '') yield* this.#add(call.arguments, []);
      this.#pending = [];
    }
  }

  /** Continues the open block if it is of that kind, else opens a new one. */
  *grow(
    block: Exclude<ReplyBlock, { kind: 'call' }>,
    text: string,
    logprobs: readonly TokenLogprob[],
  ): Generator<BlockEvent, void> {
    if (this.#open?.block.kind !== block.kind) yield* this.#begin(block, null);
    if (text !== '') yield* this.#add(text, logprobs);
  }

  *close(): Generator<BlockEvent, void> {
    if (this.#open === null) return;
    const { index, block, text, logprobs } = this.#open;
    this.#open = null;
    yield { kind: 'closed', index, block, text, logprobs };
  }

  *#begin(block: ReplyBlock, callIndex: number | null): Generator<BlockEvent, void> {
    yield* this.close();
    const index = this.#count;
    this.#count += 1;
    this.#open = { index, block, callIndex, text: '', logprobs: [] };
    this.hasCalls ||= block.kind === 'call';
    this.hasSpoken ||= block.kind !== 'reasoning';
    yield { kind: 'opened', index, block };
  }

  *#add(text: string, logprobs: readonly TokenLogprob[]): Generator<BlockEvent, void> {
    if (this.#open === null) throw new Error('text comes in a block');
    const { index, block } = this.#open;
    this.#open.text += text;
    this.#open.logprobs.push(...logprobs);
    yield { kind: 'grown', index, block, text, logprobs };
  }

  #take(): TokenLogprob[] {
    const taken = this.#pending;
    this.#pending = [];
    return taken;
  }
}

/** Reads a whole reply: its blocks with their texts. */
export async function collectBlocks(
  events: AsyncIterable<BlockEvent>,
): Promise<{ blocks: Extract<BlockEvent, { kind: 'closed' }>[]; end: ReplyEnd }> {
  const blocks: Extract<BlockEvent, { kind: 'closed' }>[] = [];
  for await (const event of events) {
    if (event.kind === 'closed') blocks.push(event);
    if (event.kind === 'ended') return { blocks, end: event };
  }
  throw new Error('a reply ended without its last event');
}
