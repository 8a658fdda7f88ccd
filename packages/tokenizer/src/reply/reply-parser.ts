import type { ToolDescription } from '../contract/tool-description.ts';
import type { CallReader } from './call-writer.ts';
import { readCohere } from './cohere-reader.ts';
import { glmReader } from './glm-reader.ts';
import { harmonyReader } from './harmony-reader.ts';
import {
  readGranite,
  readHermes,
  readJsonArray,
  readKimi,
  readLlamaJson,
  readMistral,
  readNemotron,
} from './json-call-readers.ts';
import { minimaxReader } from './minimax-reader.ts';
import { readNamed } from './named-reader.ts';
import { readPythonic } from './pythonic-reader.ts';
import { qwenXmlReader } from './qwen-xml-reader.ts';
import { readReasoning, type ReasoningState } from './reasoning-reader.ts';
import { ReplyRecord, type ParsedReply, type ReplyDelta } from './reply-record.ts';
import { MalformedReply, ReplyText, type Reading } from './reply-text.ts';
import type { ToolFormat } from './tool-format.ts';

export interface ReplyParserOptions {
  /** Their schemas give the types of values that a format writes as text. */
  tools: readonly ToolDescription[] | null;
  /** null: no tool calls are parsed. */
  toolFormat: ToolFormat | null;
  /** True for `harmony` without tools: calls are text, reasoning and content are still parsed. Default: false. */
  callsAreText?: boolean;
  /** Tool whose arguments are the reply, for `named`. */
  namedTool?: string;
  /** false: only the first call counts. */
  parallelToolCalls: boolean;
  /** A constraint forces calls, so they are reported as they arrive. Default: false. */
  isConstrained?: boolean;
  /** null: a think block is content. */
  reasoning: ReasoningState | null;
  toolCallId(index: number): string;
}

/**
 * Parser of a reply's text into reasoning, tool calls and content; at once or as it is sampled. However the text
 * is cut, the deltas add up to `result()`; arguments are JSON in Python's spacing, numbers as sampled.
 *
 * - A call is reported when it is complete and its arguments are an object, or as it arrives if a constraint
 *   ensures both. Without arguments it has `{}`.
 * - A block that is not a call is content from its opening tag on; complete calls before it count. An unclosed
 *   last block counts if its call is complete.
 * - In a reply that was cut off, a started call is reported as far as it came, with `isCutOff`. If none had
 *   started, replies that are calls by the request's choice have no content, and the text of others is content.
 * - Text after a call is dropped, and so is white space right before one. A reply that ends while reasoning has
 *   neither content nor calls.
 */
export class ReplyParser {
  readonly #options: ReplyParserOptions;
  readonly #text = new ReplyText();
  readonly #record: ReplyRecord;
  readonly #reading: Reading;
  #isReasoning: boolean;
  #isMalformed = false;
  #hasEnded = false;
  #isCutOff = false; // within a call

  constructor(options: ReplyParserOptions) {
    this.#options = options;
    this.#record = new ReplyRecord({
      toolCallId: (index) => options.toolCallId(index),
      holdsSpace: options.toolFormat !== null,
      isLive: options.isConstrained ?? false,
      onReport: () => this.#text.unmark(),
    });
    this.#isReasoning = options.reasoning?.startsInside === true;
    this.#reading = this.#read();
  }

  get isReasoning(): boolean {
    return this.#isReasoning;
  }

  /** Adds text of the reply. @returns the new certain parts */
  push(text: string): ReplyDelta {
    if (this.#hasEnded) throw new Error('push() after end()');
    this.#text.append(text);
    this.#advance();
    return this.#record.takeDelta();
  }

  /**
   * @param options `isCutOff`: it did not end by itself, so a partial call is no mistake of the model
   * @returns the parts that were held back
   */
  end({ isCutOff = false }: { isCutOff?: boolean } = {}): ReplyDelta {
    if (this.#hasEnded) return this.#record.takeDelta();
    this.#hasEnded = true;
    this.#text.end({ isCutOff });
    this.#advance();
    this.#record.flush();
    return this.#record.takeDelta();
  }

  result(): ParsedReply {
    this.end();
    const { reasoning: split, toolFormat } = this.#options;
    const reasoning = this.#record.reasoning === '' ? null : this.#record.reasoning;
    if (this.#isReasoning) return { content: null, reasoning, toolCalls: [] };
    const { text: content, toolCalls } = this.#record;
    const isByRequest = isCallByRequest(toolFormat);
    const isNullable = toolCalls.length > 0 ? !isByRequest : split !== null && !split.isDisabled;
    return {
      content: content === '' && isNullable ? null : content,
      reasoning,
      toolCalls,
      ...(this.#isCutOff ? { isCutOff: true } : {}),
    };
  }

  *#read(): Reading {
    const { reasoning, parallelToolCalls } = this.#options;
    if (reasoning !== null) {
      this.#isReasoning = true;
      if (!(yield* readReasoning(this.#text, reasoning, (text) => this.#record.reason(text)))) return;
      this.#isReasoning = false;
    }
    yield* callReader(this.#options)(this.#text, this.#record, !parallelToolCalls);
  }

  #advance(): void {
    try {
      if (!this.#isMalformed) this.#reading.next();
    } catch (error) {
      if (!(error instanceof MalformedReply)) throw error;
      this.#stopReading();
    }
    if (this.#isMalformed) this.#record.plain(this.#text.takeRest());
  }

  /** Stops at text that is not a call. If the reply was cut off there, all text was read. */
  #stopReading(): void {
    const record = this.#record;
    if (this.#text.isCutOff) record.report();
    else record.drop();
    const isInCall = record.toolCalls.length > 0 || isCallByRequest(this.#options.toolFormat);
    const wasCut = this.#text.isCutOff && isInCall;
    this.#isCutOff = wasCut || record.isHalf;
    this.#isMalformed = !wasCut;
  }
}

/** True if the request made the whole reply calls. */
function isCallByRequest(toolFormat: ToolFormat | null): boolean {
  return toolFormat === 'json_array' || toolFormat === 'named';
}

function callReader({ toolFormat, tools, namedTool, callsAreText = false }: ReplyParserOptions): CallReader {
  switch (toolFormat) {
    case 'hermes':
      return readHermes;
    case 'qwen_xml':
      return qwenXmlReader(tools ?? []);
    case 'llama3_json':
      return readLlamaJson;
    case 'mistral':
      return readMistral;
    case 'pythonic':
      return readPythonic;
    case 'kimi_k2':
      return readKimi;
    case 'glm':
      return glmReader(tools ?? []);
    case 'granite':
      return readGranite;
    case 'nemotron':
      return readNemotron;
    case 'minimax_m2':
      return minimaxReader(tools ?? []);
    case 'harmony':
      return harmonyReader(!callsAreText);
    case 'cohere':
      return readCohere;
    case 'json_array':
      return readJsonArray;
    case 'named':
      if (namedTool === undefined) throw new TypeError('the tool format "named" needs namedTool');
      return readNamed(namedTool);
    case null:
      return readPlain;
    default:
      return toolFormat satisfies never;
  }
}

const readPlain: CallReader = function* (text, calls) {
  yield* text.scanTo([], (piece) => calls.content(piece));
};
