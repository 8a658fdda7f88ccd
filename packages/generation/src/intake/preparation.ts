import type { EngineEvent, GenerateRequest } from '../contract/generate-request.ts';
import type { EncodedPrompt } from '../prompt/prompt.ts';

export interface Submission {
  readonly request: GenerateRequest;
  readonly arrival: number;
  readonly emit: (event: EngineEvent) => void;
  isPaused: boolean;
}

/**
 * A request whose prompt is being made, or whose constraint is being tried, outside this thread. It waits
 * outside the scheduler; nothing of it is sent until a step takes it up.
 */
export class Preparation {
  readonly submission: Submission;
  readonly controller: AbortController;
  isAborted = false;
  /** Null during preparation. */
  outcome: { kind: 'encoded'; prompt: EncodedPrompt } | { kind: 'failed'; error: unknown } | null = null;

  /** @param onSettled called once, when {@link outcome} is set */
  constructor(
    submission: Submission,
    prompt: Promise<EncodedPrompt>,
    controller: AbortController,
    onSettled: () => void,
  ) {
    this.submission = submission;
    this.controller = controller;
    void prompt
      .then(
        (encoded) => void (this.outcome = { kind: 'encoded', prompt: encoded }),
        (error: unknown) => void (this.outcome = { kind: 'failed', error }),
      )
      .then(onSettled);
  }

  abort(): void {
    this.isAborted = true;
    this.controller.abort();
  }
}
