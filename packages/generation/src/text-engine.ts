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
  /** Closed with this. */
  tokens: LocalTokens;
  tokenizer: TextTokenizer;
  /** null refuses chat prompts; token ids still work. */
  template: EngineTemplate | null;
  /** Runs templates that come with a request. Default: such requests are refused. */
  templateSandbox?: TemplateSandbox | null;
  /** Makes long prompts. Default: the calling thread does. */
  longTexts?: PromptParts['longTexts'];
  /** The tokens that `addSpecialTokens` adds. Default: none. */
  borders?: PromptBorders;
  /** How models write calls of tools, whatever their templates say. Default null: as the template says. */
  toolFormat?: ToolFormat | null;
  /** Compiles constraints. Default: requests with one are refused. */
  constraints?: ConstraintCompiler;
  /** Default `priority`. `fcfs` refuses requests that ask for another priority than 0. */
  policy?: SchedulingPolicy;
  /** Milliseconds, monotonic. Default performance.now. */
  clock?: () => number;
}

/**
 * Many requests over one model, text in and text out: over {@link LocalTokens}, which know tokens only, an {@link Intake} makes prompts and says what replies must be and where
 * they end. `submit` queues, each `step` computes one batch and sends what it gave. Nothing runs between steps but prompts that are made
 * elsewhere; the caller steps while {@link hasWork}, and again when {@link onWork} is called.
 *
 * Every request ends in exactly one `completed` or `failed` event. A request's fault fails that request alone and never throws out of `step`.
 */
export class TextEngine {
  /** Called when work appears by itself: a prompt that was made elsewhere is ready. */
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

  /** Queues a request. What is wrong with it is told at once by a `failed` event, never thrown. */
  submit(request: GenerateRequest, emit: (event: EngineEvent) => void): void {
    this.#intake.submit(request, emit, () => this.onWork());
  }

  /** Ends a request at the next step with `engine.aborted`; unknown ids are ignored, since it may have ended meanwhile. */
  abort(requestId: string): void {
    if (!this.#tokens.abort(requestId)) this.#intake.abort(requestId);
  }

  /** A paused request keeps its place and computes nothing; its cells may be taken for others. Unknown ids are ignored. */
  setPaused(requestId: string, isPaused: boolean): void {
    if (!this.#tokens.setPaused(requestId, isPaused)) this.#intake.setPaused(requestId, isPaused);
  }

  /** Loads an adapter version before a request names it: see {@link LocalTokens.publish}. */
  publish(adapter: AdapterRef): Promise<string | null> {
    return this.#tokens.publish(adapter);
  }

  /** No request will name this adapter version any more: see {@link LocalTokens.retire}. */
  retire(digest: string): void {
    this.#tokens.retire(digest);
  }

  /** False when nothing is queued, or all that is queued is paused or has no prompt yet. */
  get hasWork(): boolean {
    return this.#intake.hasWork || this.#tokens.hasWork;
  }

  /** True when requests were submitted faster than their prompts can be made. */
  get hasPromptsToMake(): boolean {
    return this.#intake.hasPromptsToMake;
  }

  /** Makes a few of them; a step does so, too. */
  prepareSome(): void {
    this.#intake.prepareSome();
  }

  /**
   * One engine step: take prompts in, choose a batch, run it, sample, send. At once where the runner answers at once; else the next step waits for this one, and requests
   * may be submitted, aborted and paused meanwhile.
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

  /** @throws AssertionError when the books disagree. Call between steps. */
  checkIntegrity(): void {
    this.#tokens.checkIntegrity();
  }

  /** Aborts what is in flight and closes adapters and runner; where a step has not ended, as soon as it has. */
  close(): void {
    this.#intake.close(new EngineError('engine.aborted', 'the engine was closed'));
    this.#tokens.close();
  }
}
