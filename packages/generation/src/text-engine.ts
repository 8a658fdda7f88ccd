import {
  type AdapterRef,
  EngineError,
  type EngineStats,
  type LocalTokens,
  type SampleLimits,
  type SchedulingPolicy,
  type StepReport,
} from '@trainyard/backend';
import type { ToolFormat } from '@trainyard/tokenizer';
import type { EngineEvent, GenerateRequest } from './contract/generate-request.ts';
import type { TextTokenizer } from './contract/text-tokenizer.ts';
import { Intake } from './intake/intake.ts';
import type { EngineTemplate, TemplateSandbox } from './prompt/chat.ts';
import type { PromptBorders, PromptParts } from './prompt/prompt.ts';
import type { ConstraintCompiler } from './reply/constraint.ts';

export interface TextEngineParts {
  /** Closed with this engine. */
  tokens: LocalTokens;
  tokenizer: TextTokenizer;
  /** null refuses chat prompts; token ids still work. */
  template: EngineTemplate | null;
  /** Runs templates of requests. Default: such requests are refused. */
  templateSandbox?: TemplateSandbox | null;
  /** Makes long prompts. Default: the calling thread does. */
  longTexts?: PromptParts['longTexts'];
  /** Tokens that `addSpecialTokens` adds. Default: none. */
  borders?: PromptBorders;
  /** Format of tool calls, overriding the templates. Default null: as in the template. */
  toolFormat?: ToolFormat | null;
  /** Compiles constraints. Default: requests with one are refused. */
  constraints?: ConstraintCompiler;
  /** Default `priority`. `fcfs` refuses requests with a priority other than 0. */
  policy?: SchedulingPolicy;
  /** Milliseconds, monotonic. Default performance.now. */
  clock?: () => number;
}

/**
 * Serves many requests on one model, text in and text out. An {@link Intake} makes prompts and determines the
 * form and end of replies; {@link LocalTokens} know only tokens. `submit` queues, each `step` computes one
 * batch and sends its output. Between steps only prompts made on another thread progress; the caller steps
 * while {@link hasWork}, and again when {@link onWork} is called.
 *
 * Every request ends in exactly one `completed` or `failed` event. A request's fault fails only that request
 * and never throws out of `step`.
 */
export class TextEngine {
  /** Called when work appears without a call: a prompt made on another thread is ready. */
  onWork: () => void = () => {};
  readonly #tokens: LocalTokens;
  readonly #intake: Intake;
  readonly #clock: () => number;

  constructor(parts: TextEngineParts) {
    const { tokens, tokenizer, constraints = null, clock = () => performance.now() } = parts;
    this.#clock = clock;
    this.#tokens = tokens;
    this.#intake = new Intake({
      prompt: {
        tokenizer,
        template: parts.template,
        templateSandbox: parts.templateSandbox ?? null,
        longTexts: parts.longTexts ?? null,
        borders: parts.borders ?? { before: [], after: [] },
        toolFormat: parts.toolFormat ?? null,
      },
      constraints,
      policy: parts.policy ?? 'priority',
      tokens,
    });
  }

  get limits(): SampleLimits {
    return this.#tokens.limits;
  }

  /** Queues a request. Reports faults at once by a `failed` event and never throws. */
  submit(request: GenerateRequest, emit: (event: EngineEvent) => void): void {
    this.#intake.submit(request, emit, () => this.onWork());
  }

  /**
   * Ends a request at the next step with `engine.aborted`. Ignores unknown ids, because the request may have
   * ended meanwhile.
   */
  abort(requestId: string): void {
    if (!this.#tokens.abort(requestId)) this.#intake.abort(requestId);
  }

  /**
   * Pauses or resumes a request. A paused one keeps its place and computes nothing; others may take its
   * cells. Ignores unknown ids.
   */
  setPaused(requestId: string, isPaused: boolean): void {
    if (!this.#tokens.setPaused(requestId, isPaused)) this.#intake.setPaused(requestId, isPaused);
  }

  /** Loads an adapter version before a request names it: see {@link LocalTokens.publish}. */
  publish(adapter: AdapterRef): Promise<string | null> {
    return this.#tokens.publish(adapter);
  }

  /** Retires an adapter version that no request will name any more: see {@link LocalTokens.retire}. */
  retire(digest: string): void {
    this.#tokens.retire(digest);
  }

  /** False if nothing is queued, or all queued requests are paused or have no prompt yet. */
  get hasWork(): boolean {
    return this.#intake.hasWork || this.#tokens.hasWork;
  }

  /** True if requests were submitted faster than their prompts can be made. */
  get hasPromptsToMake(): boolean {
    return this.#intake.hasPromptsToMake;
  }

  /** Makes a few prompts; a step does so, too. */
  prepareSome(): void {
    this.#intake.prepareSome();
  }

  /**
   * Runs one engine step: takes in prompts, chooses a batch, runs it, samples, sends. Synchronous if the
   * runner answers synchronously; else the next step waits for this one, and requests may be submitted,
   * aborted and paused meanwhile.
   */
  step(): StepReport | Promise<StepReport> {
    const startMs = this.#clock();
    const inAll = (report: StepReport): StepReport => ({ ...report, durationMs: this.#clock() - startMs });
    this.#tokens.endLeaving();
    this.#intake.prepareSome();
    this.#intake.takePrepared();
    const report = this.#tokens.step();
    return report instanceof Promise ? report.then(inAll) : inAll(report);
  }

  stats(): EngineStats {
    const stats = this.#tokens.stats();
    const { size } = this.#intake;
    return { ...stats, numRequests: stats.numRequests + size, numUnprepared: size };
  }

  /** @throws AssertionError if the accounts disagree. Call between steps. */
  checkIntegrity(): void {
    this.#tokens.checkIntegrity();
  }

  /** Aborts requests in flight and closes adapters and runner, after the end of a step in progress. */
  close(): void {
    this.#intake.close(new EngineError('engine.aborted', 'the engine was closed'));
    this.#tokens.close();
  }
}
