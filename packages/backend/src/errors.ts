import { type FieldText, sayFields } from '@trainyard/protocol/fields';

/** Stable codes of everything the engine can refuse or fail with; also the metric label and the log field. */
export type EngineErrorCode =
  /** OpenAI's own name: the clients above it look for this word. */
  | 'context_length_exceeded'
  | 'engine.overloaded'
  | 'engine.aborted'
  | 'engine.adapter_unreadable'
  /** A file of the adapter has another digest than was written. */
  | 'engine.adapter_damaged'
  /** The file of the base model has other content than when it was first read. */
  | 'engine.model_damaged'
  | 'engine.template_failed'
  | 'engine.invalid_request'
  /** Needed more work or memory in the middle of a reply than one reply gets. */
  | 'engine.constraint_exhausted'
  /** The request's masks together let no token follow in the middle of a reply. */
  | 'engine.no_token_left'
  | 'engine.host_lost'
  | 'engine.internal';

/**
 * A failure of one request. `param` names the parameter of a request at fault, where there is one; `text` is the message with the parameters that it speaks of, by their names within:
 * who tells a client says them as that client knows them.
 */
export class EngineError extends Error {
  override readonly name = 'EngineError';
  readonly code: EngineErrorCode;
  readonly param: string | null;
  readonly text: FieldText;

  constructor(
    code: EngineErrorCode,
    text: FieldText | string,
    { param = null, ...options }: ErrorOptions & { param?: string | null } = {},
  ) {
    super(typeof text === 'string' ? text : sayFields(text), options);
    this.code = code;
    this.param = param;
    this.text = typeof text === 'string' ? [text] : text;
  }
}

export function asEngineError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new EngineError('engine.internal', message, { cause: error });
}

/** An {@link EngineError} as data. */
export interface EngineFailure {
  readonly code: EngineErrorCode;
  readonly message: string;
  readonly param: string | null;
  /** The message, with the parameters that it speaks of. Absent: it speaks of none. */
  readonly text?: FieldText;
}

export function toFailure(error: unknown): EngineFailure {
  const { code, message, param, text } = asEngineError(error);
  const namesFields = text.some((part) => typeof part !== 'string');
  return namesFields ? { code, message, param, text } : { code, message, param };
}

export function fromFailure({ code, message, param, text = [message] }: EngineFailure): EngineError {
  return new EngineError(code, text, { param });
}
