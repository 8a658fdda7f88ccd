import { createContext, Script } from 'node:vm';
import { Interpreter, parse, tokenize } from '@huggingface/jinja';
import { detectContentFormat } from './content-format.ts';
import { PromptRenderer } from './prompt-renderer.ts';
import { templateEnvironment, TemplateRefusal } from './template-environment.ts';
import type { ContentFormat, TemplateMessage } from './template-message.ts';
import { TokenizerError } from './tokenizer-error.ts';
import type { Tokenizer } from './tokenizer.ts';

export interface RenderOptions {
  /** Tools as the request gives them; `null` or absent = none. */
  tools?: readonly unknown[] | null;
  /** End with the opening of an assistant turn. Default: true. */
  addGenerationPrompt?: boolean;
  /** Further variables, such as `enable_thinking`. A name the template already has a value for is ignored. */
  templateVariables?: Readonly<Record<string, unknown>>;
}

export interface ChatTemplateOptions {
  /** What `strftime_now` reads. Default: the system's clock, local time. */
  clock?: () => Date;
  /** A template that runs longer is stopped, milliseconds. Default: 5,000 (2,000 messages take about 70). */
  timeoutMs?: number;
}

// The lexer is quadratic in runs of white space, so an unbounded source could hang the process; real templates have 0.5 to 30 KB.
const MAX_SOURCE_CHARACTERS = 256 * 1024;
const DEFAULT_TIMEOUT_MS = 5_000;

/** A Jinja chat template on a vocabulary: messages → prompt. Parsed once, then stateless. */
export class ChatTemplate {
  readonly tokenizer: Tokenizer;
  readonly source: string;
  /** What the template expects as a message's content. */
  readonly contentFormat: ContentFormat;
  readonly #program: ReturnType<typeof parse>;
  readonly #clock: () => Date;
  readonly #timeoutMs: number;

  /** @throws {TokenizerError} `tokenizer.template_failed` when the source is no valid template, or too long */
  constructor(tokenizer: Tokenizer, source: string, options: ChatTemplateOptions = {}) {
    if (source.length > MAX_SOURCE_CHARACTERS) {
      const message = `a chat template may have ${MAX_SOURCE_CHARACTERS} characters, got ${source.length}`;
      throw new TokenizerError('tokenizer.template_failed', message);
    }
    this.tokenizer = tokenizer;
    this.source = source;
    this.#clock = options.clock ?? (() => new Date());
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    // trim_blocks and lstrip_blocks: the settings chat templates are written for
    this.#program = this.#guarded(() => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })));
    this.contentFormat = detectContentFormat(this.#program);
  }

  /**
   * The template a model file carries.
   * @throws {TokenizerError} `tokenizer.no_template` when it carries none; `tokenizer.template_failed`
   */
  static fromModel(
    tokenizer: Tokenizer,
    model: { readonly chatTemplate: string | undefined },
    options?: ChatTemplateOptions,
  ): ChatTemplate {
    if (model.chatTemplate === undefined) {
      throw new TokenizerError(
        'tokenizer.no_template',
        'the model file carries no chat template (metadata key tokenizer.chat_template)',
      );
    }
    return new ChatTemplate(tokenizer, model.chatTemplate, options);
  }

  /**
   * Messages → prompt. Control tokens come from the template alone, never from what the messages, tools or variables say.
   *
   * @returns the ids, and the text they stand for
   * @throws {TokenizerError} `tokenizer.template_failed` with the template's own reason; `tokenizer.unsupported_content`;
   *   `tokenizer.text_too_long`
   */
  render(messages: readonly TemplateMessage[], options: RenderOptions = {}): { tokenIds: Int32Array; text: string } {
    const renderer = this.renderer(messages, options);
    const text = renderer.render(messages, options.addGenerationPrompt ?? true);
    return { tokenIds: renderer.encode(text), text: renderer.restore(text) };
  }

  /**
   * For several renderings that are to be compared: all of them protect outside text by the same characters.
   * @param messages all that will be rendered
   */
  renderer(messages: readonly TemplateMessage[], options: RenderOptions = {}): PromptRenderer {
    return new PromptRenderer(this, messages, options);
  }

  /**
   * Runs the template on variables as they are, with nothing protected.
   * @throws {TokenizerError} `tokenizer.template_failed`
   */
  run(variables: Readonly<Record<string, unknown>>): string {
    return this.#guarded(() => {
      const result: unknown = new Interpreter(templateEnvironment(variables, this.#clock)).run(this.#program).value;
      return String(result);
    });
  }

  #guarded<Result>(task: () => Result): Result {
    try {
      return runWithin(this.#timeoutMs, task);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const message =
        error instanceof TemplateRefusal
          ? `the chat template refused the messages: ${reason}`
          : `the chat template failed: ${reason}`;
      throw new TokenizerError('tokenizer.template_failed', message, { cause: error });
    }
  }
}

const CALL = new Script('task()');
const sandbox: { task: () => void } = { task: () => {} };
createContext(sandbox);

/** Only code entered through `vm` can be stopped from outside in the same thread. */
function runWithin<Result>(timeoutMs: number, task: () => Result): Result {
  let result: { value: Result } | undefined;
  sandbox.task = () => {
    result = { value: task() };
  };
  try {
    CALL.runInContext(sandbox, { timeout: timeoutMs });
  } finally {
    sandbox.task = () => {}; // what it held can be collected
  }
  if (result === undefined) throw new Error('the template gave no result');
  return result.value;
}
