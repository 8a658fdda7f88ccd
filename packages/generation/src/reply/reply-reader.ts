import {
  keepsSpecialTokens,
  randomToolCallId,
  ReplyParser,
  toolChoiceSchema,
  TokenizerError,
  type ReplyDelta,
  type ToolDescription,
  type ToolFormat,
} from '@trainyard/tokenizer';
import { refusal } from '@trainyard/backend';
import { parseInOrder } from '@trainyard/protocol/json';
import type { EngineEvent, ReplyReading } from '../contract/generate-request.ts';
import type { ReplyTraits } from '../prompt/reply-traits.ts';

type OutputEvent = Extract<EngineEvent, { kind: 'delta' | 'finished' }>;

/**
 * Splits the replies of one request into content, reasoning and tool calls, as their texts arrive. If there
 * is nothing to separate, {@link createReplyReader} returns none.
 */
export class ReplyReader {
  #numReasoningTokens = 0;
  readonly #reading: ReplyReading;
  readonly #traits: ReplyTraits;
  readonly #toolFormat: ToolFormat | null;
  readonly #isConstrained: boolean;
  readonly #parsers = new Map<number, ReplyParser>();

  /** @param isConstrained forced calls are constrained to their schema */
  constructor(reading: ReplyReading, traits: ReplyTraits, isConstrained: boolean) {
    this.#reading = reading;
    this.#traits = traits;
    this.#isConstrained = isConstrained && reading.toolChoice !== 'auto' && reading.toolChoice !== 'none';
    this.#toolFormat = toolFormatOf(reading, traits);
  }

  /** True if it searches for possible control tokens, which must then stay in the text. */
  get keepsSpecialTokens(): boolean {
    return keepsSpecialTokens(this.#toolFormat) || this.#traits.isThinkHidden;
  }

  read(event: EngineEvent): EngineEvent {
    if (event.kind === 'delta' || event.kind === 'finished') return this.#readOutput(event);
    if (event.kind !== 'completed' || this.#traits.reasoning === null) return event;
    return { ...event, usage: { ...event.usage, reasoningTokens: this.#numReasoningTokens } };
  }

  #readOutput(event: OutputEvent): OutputEvent {
    const parser = this.#parserOf(event.index);
    const wasReasoning = parser.isReasoning;
    const delta = parser.push(event.text);
    if (wasReasoning && parser.isReasoning) this.#numReasoningTokens += event.tokenIds.length;
    if (event.kind === 'delta') return { ...event, reply: delta };
    this.#parsers.delete(event.index);
    // A stop string or token of the request truncates a reply as a limit does.
    const isCutOff = event.finishReason !== 'stop' || event.stopReason !== null;
    const reply = joined(delta, parser.end({ isCutOff }));
    const parsed = parser.result();
    // A partial call must not be made, so a reply that ends in one has not stopped (decision 57).
    const finishReason = parsed.isCutOff && event.finishReason === 'stop' ? 'length' : event.finishReason;
    return { ...event, finishReason, reply, parsed };
  }

  #parserOf(index: number): ReplyParser {
    let parser = this.#parsers.get(index);
    if (parser === undefined) {
      const { tools, toolChoice, parallelToolCalls } = this.#reading;
      parser = new ReplyParser({
        tools,
        toolFormat: this.#toolFormat,
        ...(typeof toolChoice === 'object' ? { namedTool: toolChoice.name } : {}),
        parallelToolCalls,
        isConstrained: this.#isConstrained,
        callsAreText: toolChoice === 'none',
        reasoning: this.#traits.reasoning,
        toolCallId: () => randomToolCallId(this.#traits.toolFormat),
      });
      this.#parsers.set(index, parser);
    }
    return parser;
  }
}

/**
 * @param options.isConstrained forced calls are constrained to their schema
 * @returns null if the whole reply is content
 * @throws {EngineError} engine.invalid_request for calls in an unknown format
 */
export function createReplyReader(
  reading: ReplyReading | null,
  traits: ReplyTraits | null,
  { isConstrained }: { isConstrained: boolean },
): ReplyReader | null {
  if (reading === null || traits === null) return null;
  if (reading.toolChoice === 'auto' && traits.toolFormat === null) {
    throw refusal(
      'reply.toolChoice',
      'the chat template uses a tool format that cannot be parsed: set it to none, required, or one tool by name',
    );
  }
  if (reading.toolChoice === 'none' && traits.reasoning === null && traits.toolFormat !== 'harmony') return null;
  return new ReplyReader(reading, traits, isConstrained);
}

/**
 * JSON schema that a tool choice imposes on the reply; null if it imposes none.
 * @throws {EngineError} engine.invalid_request for tools that contradict each other
 */
export function forcedCallSchema(reading: ReplyReading | null): Readonly<Record<string, unknown>> | null {
  if (reading === null || reading.toolChoice === 'none' || reading.toolChoice === 'auto') return null;
  const { toolChoice, parallelToolCalls } = reading;
  try {
    return toolChoiceSchema(toolsInOrder(reading) ?? [], toolChoice, { parallelToolCalls });
  } catch (cause) {
    if (!(cause instanceof TokenizerError)) throw cause;
    throw refusal('reply.tools', cause.message, { cause });
  }
}

/** Tools with the properties of their schemas in the order that a reply has to follow. */
export function toolsInOrder({ tools, toolsText }: ReplyReading): readonly ToolDescription[] | null {
  return toolsText === null ? tools : (parseInOrder(toolsText) as ToolDescription[]);
}

/** True if replies are read as the channels of gpt-oss. */
export function readsChannels(reading: ReplyReading, traits: ReplyTraits): boolean {
  return toolFormatOf(reading, traits) === 'harmony';
}

function toolFormatOf({ toolChoice }: ReplyReading, traits: ReplyTraits): ToolFormat | null {
  if (toolChoice === 'none') return traits.toolFormat === 'harmony' ? 'harmony' : null;
  if (toolChoice === 'auto') return traits.toolFormat;
  return toolChoice === 'required' ? 'json_array' : 'named';
}

function joined(first: ReplyDelta, second: ReplyDelta): ReplyDelta {
  const toolCalls = first.toolCalls.map((call) => ({ ...call }));
  for (const call of second.toolCalls) {
    const known = toolCalls.find(({ index }) => index === call.index);
    if (known === undefined) toolCalls.push({ ...call });
    else known.arguments += call.arguments;
  }
  return {
    content: first.content + second.content,
    reasoning: first.reasoning + second.reasoning,
    toolCalls,
  };
}
