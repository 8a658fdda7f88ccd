import type { EngineStats } from './engine-stats.ts';
import type { RequestText } from './request-text.ts';
import type { SampleEvent } from './sample-event.ts';
import type { AdapterRef, SampleRequest } from './sample-request.ts';
import type { StepReport } from './step-report.ts';

/** A request that is ready to run. */
export interface TokenSubmission {
  /** Valid: it is not checked here. */
  readonly request: SampleRequest;
  readonly promptIds: readonly number[];
  /** Order of arrival, unique. */
  readonly arrival: number;
  readonly isPaused: boolean;
  /** Banned token sequences. */
  readonly banned: readonly (readonly number[])[];
  /** null = no text. Closed with the request. */
  readonly text: RequestText | null;
  /** True reports the draw with each token, if requested; else at the end of a choice. */
  readonly reportsDraws: boolean;
  readonly emit: (event: SampleEvent) => void;
}

export interface SampleLimits {
  readonly maxRequests: number;
  readonly maxChoices: number;
  /** Maximum length of prompt and reply together. */
  readonly maxContextTokens: number;
}

/**
 * Token sampler in this process that runs step by step and can consult text in between: the base of the text
 * half. The engine is one; `BackendTokens` of `@trainyard/generation` adapts a remote `TokenBackend`.
 */
export interface LocalTokens {
  readonly limits: SampleLimits;
  readonly vocabSize: number;
  readonly size: number;
  /** False if a step would do nothing. */
  readonly hasWork: boolean;
  has(requestId: string): boolean;
  submit(submission: TokenSubmission): void;
  /** Ends a request at the next step with `engine.aborted`. @returns false if it is not in flight */
  abort(requestId: string): boolean;
  /**
   * Pauses or resumes a request; a paused one keeps its place and computes nothing. @returns false if it is
   * not in flight
   */
  setPaused(requestId: string, isPaused: boolean): boolean;
  /**
   * Loads an adapter version before a request names it, if it fits.
   *
   * @returns as {@link TokenBackend.publish}
   * @throws {EngineError} engine.adapter_unreadable
   */
  publish(adapter: AdapterRef): Promise<string | null>;
  /**
   * Retires an adapter version that no request will name any more: frees its memory once no request in flight
   * uses it. Ignores unknown digests.
   */
  retire(digest: string): void;
  /** Ends aborted requests; a step does so, too. */
  endLeaving(): void;
  /** Synchronous or asynchronous; the next step waits for an asynchronous one. */
  step(): StepReport | Promise<StepReport>;
  stats(): EngineStats;
  /** @throws AssertionError if the accounts disagree. Call between steps. */
  checkIntegrity(): void;
  close(): void;
}
