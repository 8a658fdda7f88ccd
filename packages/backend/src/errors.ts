/** Stable codes of everything the engine can refuse or fail with; also the metric label and the log field. */
export type EngineErrorCode =
  /** OpenAI's own name: the clients above it look for this word. */
  | 'context_length_exceeded'
  | 'engine.overloaded'
  | 'engine.aborted'
  | 'engine.adapter_unreadable'
  | 'engine.template_failed'
  | 'engine.invalid_request'
  /** Needed more work or memory in the middle of a reply than one reply gets. */
  | 'engine.constraint_exhausted'
  | 'engine.host_lost'
  | 'engine.internal';

/** A failure of one request. `param` names the field of {@link GenerateRequest} at fault, where there is one. */
export class EngineError extends Error {
  override readonly name = 'EngineError';
  readonly code: EngineErrorCode;
  readonly param: string | null;

  constructor(code: EngineErrorCode, message: string, options?: ErrorOptions & { param?: string | null }) {
    super(message, options);
    this.code = code;
    this.param = options?.param ?? null;
  }
}

export function asEngineError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new EngineError('engine.internal', message, { cause: error });
}
