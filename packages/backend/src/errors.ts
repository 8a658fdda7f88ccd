import { type FieldText, renderFieldText } from '@trainyard/protocol/fields';

/** Stable codes of all refusals and failures of the engine; also the metric label and the log field. */
export type EngineErrorCode =
  /** OpenAI's own code, which clients match. */
  | 'context_length_exceeded'
  | 'engine.overloaded'
  | 'engine.aborted'
  | 'engine.adapter_unreadable'
  /** A file of the adapter has another digest than when written. */
  | 'engine.adapter_damaged'
  /** The file of the base model has changed since it was first read. */
  | 'engine.model_damaged'
  | 'engine.template_failed'
  | 'engine.invalid_request'
  /** A reply needed more work or memory than its limit. */
  | 'engine.constraint_exhausted'
  /** The request's masks together allow no further token within a reply. */
  | 'engine.no_token_left'
  | 'engine.host_lost'
  | 'engine.internal';

/**
 * Failure of one request. `param` names the parameter at fault, if any. `text` is the message with parameters
 * under their internal names, which clients of an API see under that API's names.
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
    super(typeof text === 'string' ? text : renderFieldText(text), options);
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
  /** Message with its parameters. Absent if it names none. */
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
