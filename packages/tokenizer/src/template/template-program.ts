import { pythonJson } from '../reply/python-json.ts';
import { holdsPythonValues } from '../contract/python-values.ts';
import type { ContentFormat } from '../contract/template-message.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import { probeToolSupport, type ToolSupport } from '../tools/tool-support.ts';
import { probeTurnSupport, type TurnSupport } from '../turns/turn-support.ts';
import { probeContentFormat } from './content-format.ts';
import { JinjaTemplate } from './jinja-template.ts';
import { TemplateExhausted } from '../contract/template-exhausted.ts';

export interface TemplateProgramOptions {
  /** Clock of `strftime_now`. Default: the system's, local time. */
  clock?: () => Date;
  /**
   * Maximum steps per run, about one per instruction and per 64 bytes of text. Default: 20 million, a few seconds,
   * enough for 2,000 messages.
   */
  maxSteps?: number;
}

// Real templates have 0.5 to 30 KB.
const MAX_SOURCE_CHARACTERS = 256 * 1024;
const DEFAULT_MAX_STEPS = 20_000_000;

/** A Jinja chat template without a vocabulary. Compiled once, then stateless. */
export class TemplateProgram {
  readonly source: string;
  readonly #template: JinjaTemplate;
  readonly #clock: () => Date;
  readonly #maxSteps: number;
  #contentFormat: ContentFormat | null = null;
  #toolSupport: ToolSupport | null = null;
  #turnSupport: TurnSupport | null = null;

  /** @throws {TokenizerError} `tokenizer.template_failed` if the source is not a valid template, or too long */
  constructor(source: string, options: TemplateProgramOptions = {}) {
    checkTemplateSize(source);
    this.source = source;
    this.#clock = options.clock ?? (() => new Date());
    this.#maxSteps = options.maxSteps ?? DEFAULT_MAX_STEPS;
    this.#template = explained(() => new JinjaTemplate(source));
  }

  /** Found by rendering at first use. */
  get contentFormat(): ContentFormat {
    return (this.#contentFormat ??= probeContentFormat((variables) => this.run(variables)));
  }

  /** Found by rendering at first use. */
  get toolSupport(): ToolSupport {
    this.#toolSupport ??= probeToolSupport(this.source, this.contentFormat, (variables) => this.run(variables));
    return this.#toolSupport;
  }

  /** Found by rendering about 60 short conversations at first use. */
  get turnSupport(): TurnSupport {
    this.#turnSupport ??= probeTurnSupport(this.source, this.contentFormat, (variables) => this.run(variables));
    return this.#turnSupport;
  }

  /** Runs the template on unprotected variables. @throws {TokenizerError} `tokenizer.template_failed` */
  run(variables: Readonly<Record<string, unknown>>): string {
    const json = holdsPythonValues(variables) ? pythonJson(variables) : JSON.stringify(variables);
    const { kind, text } = explained(() => this.#template.render(json, this.#clock(), this.#maxSteps));
    switch (kind) {
      case 'text':
        return text;
      case 'refused':
        throw new TokenizerError('tokenizer.template_failed', `the chat template refused the messages: ${text}`);
      case 'failed':
        throw failure(text);
      case 'exhausted':
        throw failure(`it takes more than ${this.#maxSteps} steps`, new TemplateExhausted(text));
    }
  }
}

/** @throws {TokenizerError} `tokenizer.template_failed` */
export function checkTemplateSize(source: string): void {
  if (source.length <= MAX_SOURCE_CHARACTERS) return;
  const message = `a chat template may have ${MAX_SOURCE_CHARACTERS} characters, got ${source.length}`;
  throw new TokenizerError('tokenizer.template_failed', message);
}

function explained<Result>(task: () => Result): Result {
  try {
    return task();
  } catch (error) {
    throw failure(error instanceof Error ? error.message : String(error), error);
  }
}

function failure(reason: string, cause?: unknown): TokenizerError {
  return new TokenizerError('tokenizer.template_failed', `the chat template failed: ${reason}`, { cause });
}
