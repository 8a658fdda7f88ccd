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
  /** The request's tools: their schemas say what values are that a format writes as text. */
  tools: readonly ToolDescription[] | null;
  /** null: no tool calls are looked for. */
  toolFormat: ToolFormat | null;
  /** `harmony` marks reasoning and content, too, and is read without tools: then calls are text. Default: false. */
  callsAreText?: boolean;
  /** For `named`: the tool whose arguments the reply is. */
  namedTool?: string;
  /** false: only the first call counts. */
  parallelToolCalls: boolean;
  /** A constraint holds the reply to calls by the request's choice: then they are reported while they arrive. Default: false. */
  isConstrained?: boolean;
  /** null: a think block is content like any other text. */
  reasoning: ReasoningState | null;
  /** Called once for each call, in order. */
  toolCallId(index: number): string;
}

/**
 * Text of a sampled reply → reasoning, tool calls, content; at once or as it is sampled.
 *
 * However the text is cut into pieces, the deltas add up to the same, and to `result()`: arguments, too, have one spelling (JSON in
 * Python's spacing, numbers as sampled). A call is reported when it is whole and its arguments are an object; if a constraint makes sure
 * of both, as it arrives. A block that is no call is content from its opening tag on, with all that follows; whole calls before it count.
 *
 * A reply that was cut off is not malformed: a call that had started is reported as far as it came, and `isCutOff` is set. If none had
 * started, a reply that is calls by the request's choice has no content, and the text of any other is content.
 *
 * Text after a call is lost, and so is white space alone in front of one. A call without arguments has `{}`. A last block that is not
 * closed counts if its call is whole. A reply that ends while it reasons has neither content nor calls, whatever the request asked for.
 */
export class ReplyParser {
  readonly #options: ReplyParserOptions;
  readonly #text = new ReplyText();
  readonly #record: ReplyRecord;
  readonly #reading: Reading;
  #isReasoning: boolean;
  #isMalformed = false;
  #hasEnded = false;
  #isCutOff = false; // in a call

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

  /** Whether the next text is reasoning, as far as is known. */
  get isReasoning(): boolean {
    return this.#isReasoning;
  }

  /** More of the reply. @returns the parts that are new, and certain */
  push(text: string): ReplyDelta {
    if (this.#hasEnded) throw new Error('push() after end()');
    this.#text.append(text);
    this.#advance();
    return this.#record.takeDelta();
  }

  /**
   * There is no more of the reply.
   *
   * @param options `isCutOff`: it did not end by itself, so that half a call is no mistake of the model
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

  /** The whole reply; ends it. */
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

  /** Stops at text that is no call. If it is that because the reply was cut off, the reading had read all that was there. */
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

/** The reply is calls because the request asked for them, and nothing else. */
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
