import type { EngineEvent, GenerateRequest } from './generate-request.ts';

/** A request whose prompt is being made elsewhere. It waits outside the scheduler; nothing of it is sent until it is taken up by a step. */
export class Preparation {
  readonly request: GenerateRequest;
  readonly arrival: number;
  readonly emit: (event: EngineEvent) => void;
  readonly controller: AbortController;
  isAborted = false;
  isPaused = false;
  /** Null while the prompt is being made. */
  outcome: { kind: 'encoded'; ids: readonly number[] } | { kind: 'failed'; error: unknown } | null = null;

  /** @param onSettled called once, when {@link outcome} is known */
  constructor(
    asked: { request: GenerateRequest; arrival: number; emit: (event: EngineEvent) => void },
    prompt: Promise<readonly number[]>,
    controller: AbortController,
    onSettled: () => void,
  ) {
    this.request = asked.request;
    this.arrival = asked.arrival;
    this.emit = asked.emit;
    this.controller = controller;
    void prompt
      .then(
        (ids) => void (this.outcome = { kind: 'encoded', ids }),
        (error: unknown) => void (this.outcome = { kind: 'failed', error }),
      )
      .then(onSettled);
  }

  abort(): void {
    this.isAborted = true;
    this.controller.abort();
  }
}
