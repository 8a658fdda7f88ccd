import type { RenderedPrompt, RenderOptions } from '../template/prompt-input.ts';
import { PromptInput, toolFormatOf, type TemplateTraits } from '../template/prompt-input.ts';
import type { ToolFormat } from '../reply/tool-format.ts';
import type { TemplateMessage } from '../contract/template-message.ts';
import { checkTemplateSize } from '../template/template-program.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { Tokenizer } from '../encoding/tokenizer.ts';
import { hasRareTurns } from '../turns/arrange-turns.ts';
import { SandboxProcess } from './sandbox-process.ts';

export interface TemplateSandboxOptions {
  /** Also of simultaneous templates. Default: 2. */
  numChildren?: number;
  /** Limit for parsing and rendering together, milliseconds. Default: 500. */
  timeoutMs?: number;
  /** Limit of a child's JavaScript heap, MB. Default: 128. */
  maxHeapMb?: number;
  /** As in `ChatTemplateOptions`. Default: false. */
  allowsControlTokens?: boolean;
  /** Longest rendered text. Default: 4 Mi characters; never more than fits into the context. */
  maxOutputCharacters?: number;
}

export interface SandboxRenderOptions extends RenderOptions {
  tokenizer: Tokenizer;
  source: string;
  messages: readonly TemplateMessage[];
  /** Cancels the wait for a free child, but not a running template. */
  signal?: AbortSignal;
}

export interface SandboxedPrompt extends RenderedPrompt {
  /** Format of calls in replies to the prompt; null if unknown. */
  toolFormat: ToolFormat | null;
}

/**
 * Renders untrusted templates in children that are killed if they take too long or too much memory. Variables
 * and text are treated as in `ChatTemplate`: control tokens come only from the template. Children start with the
 * first template, are replaced when killed, and keep no process alive.
 */
export class TemplateSandbox {
  readonly #options: Required<TemplateSandboxOptions>;
  readonly #idle: SandboxProcess[] = [];
  readonly #all = new Set<SandboxProcess>();
  readonly #waiting: PromiseWithResolvers<SandboxProcess>[] = [];
  #isClosed = false;

  constructor(options: TemplateSandboxOptions = {}) {
    this.#options = {
      numChildren: 2,
      timeoutMs: 500,
      maxHeapMb: 128,
      allowsControlTokens: false,
      maxOutputCharacters: 4 * 1024 * 1024,
      ...options,
    };
  }

  /**
   * @throws {TokenizerError} `tokenizer.template_failed` for all faults of the template, including limits;
   * `tokenizer.unsupported_content`; `tokenizer.text_too_long`
   * @throws the signal's reason
   */
  async render({ tokenizer, source, messages, signal, ...options }: SandboxRenderOptions): Promise<SandboxedPrompt> {
    checkTemplateSize(source);
    const { timeoutMs } = this.#options;
    const child = await this.#take(signal);
    try {
      signal?.throwIfAborted();
      const started = performance.now();
      const answer = await child.ask({ kind: 'inspect', source, probesTurns: hasRareTurns(messages) }, timeoutMs);
      const leftMs = Math.max(1, timeoutMs - (performance.now() - started));
      if (answer.kind !== 'traits') throw unexpected(answer.kind);
      const { allowsControlTokens } = this.#options;
      const traits: TemplateTraits = { tokenizer, source, allowsControlTokens, ...answer };
      const input = new PromptInput(traits, messages, options);
      const maxOutputCharacters = Math.min(this.#options.maxOutputCharacters, tokenizer.maxTextBytes);
      const variables = input.promptVariables();
      const rendered = await child.ask({ kind: 'render', variables, maxOutputCharacters }, leftMs);
      if (rendered.kind !== 'text') throw unexpected(rendered.kind);
      return { ...input.finish(rendered.text), toolFormat: toolFormatOf(traits) };
    } finally {
      this.#giveBack(child);
    }
  }

  /** Running and waiting templates fail. */
  close(): void {
    this.#isClosed = true;
    for (const child of this.#all) child.kill();
    for (const waiter of this.#waiting.splice(0)) waiter.reject(closed());
  }

  async #take(signal: AbortSignal | undefined): Promise<SandboxProcess> {
    signal?.throwIfAborted();
    if (this.#isClosed) throw closed();
    this.#startMissing();
    const child = this.#idle.pop() ?? (await this.#wait(signal));
    try {
      await child.start();
      return child;
    } catch (cause) {
      this.#giveBack(child);
      throw new TokenizerError('tokenizer.template_failed', 'the process for chat templates did not start', { cause });
    }
  }

  async #wait(signal: AbortSignal | undefined): Promise<SandboxProcess> {
    const waiter = Promise.withResolvers<SandboxProcess>();
    this.#waiting.push(waiter);
    const onAbort = () => {
      const index = this.#waiting.indexOf(waiter);
      if (index >= 0) this.#waiting.splice(index, 1);
      waiter.reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      return await waiter.promise;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  #giveBack(child: SandboxProcess): void {
    if (child.isDead) {
      this.#all.delete(child);
      if (!this.#isClosed) this.#startMissing(); // so that the next template need not wait
    } else this.#offer(child);
  }

  #startMissing(): void {
    for (const child of this.#idle.filter(({ isDead }) => isDead)) {
      this.#idle.splice(this.#idle.indexOf(child), 1);
      this.#all.delete(child);
    }
    while (this.#all.size < this.#options.numChildren) {
      const child = new SandboxProcess(this.#options.maxHeapMb);
      this.#all.add(child);
      this.#offer(child);
    }
  }

  #offer(child: SandboxProcess): void {
    const waiter = this.#waiting.shift();
    if (waiter === undefined) this.#idle.push(child);
    else waiter.resolve(child);
  }
}

let shared: TemplateSandbox | null = null;

/** Like `TemplateSandbox.render`, in a sandbox shared by the whole process. */
export function renderInSandbox(options: SandboxRenderOptions): Promise<SandboxedPrompt> {
  shared ??= new TemplateSandbox();
  return shared.render(options);
}

function closed(): TokenizerError {
  return new TokenizerError('tokenizer.template_failed', 'the sandbox for chat templates is closed');
}

function unexpected(kind: string): Error {
  return new Error(`the template process answered ${kind}`);
}
