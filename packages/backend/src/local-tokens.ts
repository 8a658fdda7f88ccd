import type { EngineStats } from './engine-stats.ts';
import type { RequestText } from './request-text.ts';
import type { SampleEvent } from './sample-event.ts';
import type { AdapterRef, SampleRequest } from './sample-request.ts';
import type { StepReport } from './step-report.ts';

/** A request that is ready to run. */
export interface TokenSubmission {
  /** Valid: nothing of it is checked here. */
  readonly request: SampleRequest;
  readonly promptIds: readonly number[];
  /** Order of arrival, unique. */
  readonly arrival: number;
  readonly isPaused: boolean;
  /** Token sequences that must not come. */
  readonly banned: readonly (readonly number[])[];
  /** null = nobody knows text. Closed with the request. */
  readonly text: RequestText | null;
  /** True tells with each token what it was drawn from, where that is asked for; else the end of a choice tells. */
  readonly tellsDraws: boolean;
  readonly emit: (event: SampleEvent) => void;
}

/** Bounds on requests. */
export interface SampleLimits {
  /** In flight. */
  readonly maxRequests: number;
  /** Choices of one request. */
  readonly maxChoices: number;
  /** Longest sequence, prompt and reply together. */
  readonly maxContextTokens: number;
}

/**
 * Tokens sampled in this process, a step at a time, by somebody who can be asked in the middle of it: what the half with text stands on. The engine is one; a
 * `TokenBackend` elsewhere becomes one through `BackendTokens` of `@trainyard/generation`.
 */
export interface LocalTokens {
  readonly limits: SampleLimits;
  readonly vocabSize: number;
  /** Requests in flight. */
  readonly size: number;
  /** False when a step would do nothing. */
  readonly hasWork: boolean;
  has(requestId: string): boolean;
  submit(submission: TokenSubmission): void;
  /** Ends a request at the next step with `engine.aborted`. @returns false for one that is not in flight */
  abort(requestId: string): boolean;
  /** A paused request keeps its place and computes nothing. @returns false for one that is not in flight */
  setPaused(requestId: string, isPaused: boolean): boolean;
  /** Loads an adapter version before a request names it, if there is room. @returns as {@link TokenBackend.publish}; @throws {EngineError} engine.adapter_unreadable */
  publish(adapter: AdapterRef): Promise<string | null>;
  /** No request will name this adapter version any more: its memory is given back once none in flight uses it. Unknown digests are ignored. */
  retire(digest: string): void;
  /** Ends those that were aborted; a step does so, too. */
  endLeaving(): void;
  /** At once, or later: then the next one waits for it. */
  step(): StepReport | Promise<StepReport>;
  stats(): EngineStats;
  /** @throws AssertionError when the books disagree. Call between steps. */
  checkIntegrity(): void;
  /** Aborts what is in flight. */
  close(): void;
}
