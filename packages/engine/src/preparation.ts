import type { EngineEvent, GenerateRequest } from './generate-request.ts';
import type { EncodedPrompt } from './prompt.ts';

/** A request whose prompt is being made elsewhere, or whose constraint is being tried there. It waits outside the scheduler; nothing of it is sent until it is taken up by a step. */
export class Preparation {
  readonly request: GenerateRequest;
  readonly arrival: number;
  readonly emit: (event: EngineEvent) => void;
  readonly controller: AbortController;
  isAborted = false;
  isPaused = false;
  /** Null while it is being prepared. */
  outcome: { kind: 'encoded'; prompt: EncodedPrompt } | { kind: 'failed'; error: unknown } | null = null;

  /** @param onSettled called once, when {@link outcome} is known */
  constructor(
    asked: { request: GenerateRequest; arrival: number; emit: (event: EngineEvent) => void },
    prompt: Promise<EncodedPrompt>,
    controller: AbortController,
    onSettled: () => void,
  ) {
    this.request = asked.request;
    this.arrival = asked.arrival;
    this.emit = asked.emit;
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
