import { createContext, Script } from 'node:vm';
import { Interpreter, parse, tokenize } from '@huggingface/jinja';
import { detectContentFormat } from './content-format.ts';
import { templateEnvironment, TemplateRefusal } from './template-environment.ts';
import type { ContentFormat } from '../contract/template-message.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import { areSmall, runSmall } from './small-run.ts';
import { probeToolSupport, type ToolSupport } from '../tools/tool-support.ts';

export interface TemplateProgramOptions {
  /** The clock that `strftime_now` reads. Default: the system's, local time. */
  clock?: () => Date;
  /** A template that runs longer is stopped, milliseconds. Default: 5,000 (2,000 messages take about 70). */
  timeoutMs?: number;
}

// The lexer is quadratic in runs of white space, so an unbounded source could hang the process; real templates have 0.5 to 30 KB.
const MAX_SOURCE_CHARACTERS = 256 * 1024;
const DEFAULT_TIMEOUT_MS = 5_000;

/** A Jinja chat template as variables → text; knows no vocabulary. Parsed once, then stateless. */
export class TemplateProgram {
  readonly source: string;
  /** The form of a message's content that the template expects. */
  readonly contentFormat: ContentFormat;
  readonly #program: ReturnType<typeof parse>;
  readonly #clock: () => Date;
  readonly #timeoutMs: number;
  #toolSupport: ToolSupport | null = null;

  /** @throws {TokenizerError} `tokenizer.template_failed` when the source is no valid template, or too long */
  constructor(source: string, options: TemplateProgramOptions = {}) {
    checkTemplateSize(source);
    this.source = source;
    this.#clock = options.clock ?? (() => new Date());
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    // trim_blocks and lstrip_blocks: the settings chat templates are written for
    this.#program = this.#guarded(() => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })));
    this.contentFormat = detectContentFormat(this.#program);
  }

  /** Found out when it is first asked for. */
  get toolSupport(): ToolSupport {
    this.#toolSupport ??= probeToolSupport(this.source, this.contentFormat, (variables) => this.run(variables));
    return this.#toolSupport;
  }

  /**
   * Runs the template on variables as they are, with nothing protected.
   * @throws {TokenizerError} `tokenizer.template_failed`
   */
  run(variables: Readonly<Record<string, unknown>>): string {
    const environment = () => templateEnvironment(variables, this.#clock);
    if (areSmall(variables)) {
      const text = this.#explained(() => runSmall(this.#program, environment()));
      if (text !== null) return text;
    }
    return this.#guarded(() => String(new Interpreter(environment()).run(this.#program).value));
  }

  #guarded<Result>(task: () => Result): Result {
    return this.#explained(() => runWithin(this.#timeoutMs, task));
  }

  #explained<Result>(task: () => Result): Result {
    try {
      return task();
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

/** @throws {TokenizerError} `tokenizer.template_failed` */
export function checkTemplateSize(source: string): void {
  if (source.length <= MAX_SOURCE_CHARACTERS) return;
  const message = `a chat template may have ${MAX_SOURCE_CHARACTERS} characters, got ${source.length}`;
  throw new TokenizerError('tokenizer.template_failed', message);
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
