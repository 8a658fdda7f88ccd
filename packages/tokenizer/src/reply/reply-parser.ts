import type { ToolDescription } from '../contract/tool-description.ts';
import type { CallReader } from './call-writer.ts';
import { readHermes, readJsonArray, readLlamaJson, readMistral } from './json-call-readers.ts';
import { readNamed } from './named-reader.ts';
import { readPythonic } from './pythonic-reader.ts';
import { qwenXmlReader } from './qwen-xml-reader.ts';
import { readReasoning, type ReasoningState } from './reasoning-reader.ts';
import { ReplyRecord, type ParsedReply, type ReplyDelta } from './reply-record.ts';
import { MalformedReply, ReplyText, type Reading } from './reply-text.ts';
import type { ToolFormat } from './tool-format.ts';

export interface ReplyParserOptions {
  /** The request's tools: their schemas say what the untyped values of `qwen_xml` are. */
  tools: readonly ToolDescription[] | null;
  /** null: no tool calls are looked for. */
  toolFormat: ToolFormat | null;
  /** For `named`: the tool whose arguments the reply is. */
  namedTool?: string;
  /** false: only the first call counts. */
  parallelToolCalls: boolean;
  /** null: a think block is content like any other text. */
  reasoning: ReasoningState | null;
  /** Called once for each call, in order. */
  toolCallId(index: number): string;
}

/**
 * Text of a sampled reply → reasoning, tool calls, content; at once or as it is sampled.
 *
 * However the text is cut into pieces, the deltas add up to the same, and to `result()`: arguments, too, have one spelling (JSON in
 * Python's spacing, numbers as sampled). There is one exception, since what was sent cannot be taken back. When a call turns out not to be
 * what its format asks for, `result()` has no calls and all of the text as content. A stream keeps the calls it has begun, adds the text
 * from there on as content (from the opening tag of the call, if nothing of it had been sent), and begins no more.
 *
 * A reply that was cut off is not malformed: a call that it had begun is told as far as it came, in one piece as in a stream, and `isCutOff` says so. Where it had
 * begun none, a reply that is calls by the request's choice has nothing to tell, and of any other the text is content.
 *
 * Text after a call is lost, white space alone in front of one is too. A call without arguments has `{}`. A last block that is not
 * closed counts if its call is whole. A reply that ends while it reasons has neither content nor calls, whatever the request asked for.
 */
export class ReplyParser {
  readonly #options: ReplyParserOptions;
  readonly #text = new ReplyText();
  readonly #record: ReplyRecord;
  readonly #reading: Reading;
  #whole = '';
  #contentFrom: number | null; // in #whole; null: the reply is still reasoning
  #isMalformed = false;
  #hasEnded = false;
  #isCutOff = false; // in a call

  constructor(options: ReplyParserOptions) {
    this.#options = options;
    this.#record = new ReplyRecord({
      toolCallId: (index) => options.toolCallId(index),
      holdsSpace: options.toolFormat !== null,
      onStart: () => this.#text.unmark(),
    });
    this.#contentFrom = options.reasoning?.startsInside === true ? null : 0;
    this.#reading = this.#read();
  }

  /** Whether the next text is reasoning, as far as is known. */
  get isReasoning(): boolean {
    return this.#contentFrom === null;
  }

  /** More of the reply. @returns what is new, and certain */
  push(text: string): ReplyDelta {
    if (this.#hasEnded) throw new Error('push() after end()');
    this.#whole += text;
    this.#text.append(text);
    this.#advance();
    return this.#record.takeDelta();
  }

  /**
   * There is no more of the reply.
   *
   * @param options `isCutOff`: it did not end by itself, so that half a call is no mistake of the model
   * @returns what was held back
   */
  end({ isCutOff = false }: { isCutOff?: boolean } = {}): ReplyDelta {
    if (this.#hasEnded) return this.#record.takeDelta();
    this.#hasEnded = true;
    this.#text.end();
    this.#advance(isCutOff);
    this.#record.flush();
    return this.#record.takeDelta();
  }

  /** The whole reply; ends it. */
  result(): ParsedReply {
    this.end();
    const { reasoning: split, toolFormat } = this.#options;
    const reasoning = this.#record.reasoning === '' ? null : this.#record.reasoning;
    if (this.#contentFrom === null) return { content: null, reasoning, toolCalls: [] };
    if (this.#isMalformed) return { content: this.#whole.slice(this.#contentFrom), reasoning, toolCalls: [] };
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
      this.#contentFrom = null;
      if (!(yield* readReasoning(this.#text, reasoning, (text) => this.#record.reason(text)))) return;
      this.#contentFrom = this.#text.position;
    }
    yield* callReader(this.#options)(this.#text, this.#record, !parallelToolCalls);
  }

  /** @param isCutOff what the reading misses now is what was cut off: it had read all that was there */
  #advance(isCutOff = false): void {
    try {
      if (!this.#isMalformed) this.#reading.next();
    } catch (error) {
      if (!(error instanceof MalformedReply)) throw error;
      this.#isCutOff = isCutOff && (this.#record.toolCalls.length > 0 || isCallByRequest(this.#options.toolFormat));
      this.#isMalformed = !this.#isCutOff;
    }
    if (this.#isMalformed) this.#record.plain(this.#text.takeRest());
  }
}

/** The reply is calls because the request asked for them, and nothing else. */
function isCallByRequest(toolFormat: ToolFormat | null): boolean {
  return toolFormat === 'json_array' || toolFormat === 'named';
}

function callReader({ toolFormat, tools, namedTool }: ReplyParserOptions): CallReader {
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
