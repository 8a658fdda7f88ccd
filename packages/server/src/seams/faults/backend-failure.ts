import { type EngineErrorCode, type EngineFailure, toFailure } from '@trainyard/backend';
import { fieldOfParam, type FieldNames, type FieldText, renameFields, renderFieldText } from '@trainyard/protocol';

/** Failure that a back end reported as data. Its field names are those of chats and text completions. */
export class BackendFailure extends Error {
  override readonly name = 'BackendFailure';
  readonly code: EngineErrorCode;
  readonly param: string | null;
  readonly text: FieldText;

  constructor(code: EngineErrorCode, text: FieldText | string, param: string | null) {
    super(typeof text === 'string' ? text : renderFieldText(text));
    this.code = code;
    this.param = param;
    this.text = typeof text === 'string' ? [text] : text;
  }

  /** Renames the fields for the clients of another request form. */
  inForm(nameOf: FieldNames): BackendFailure {
    const { code, param, text } = this;
    return new BackendFailure(code, renameFields(text, nameOf), param === null ? null : nameOf(param));
  }
}

/** Request fields that hold the prompt, the constraint, and the request for prompt scores. */
export interface ParamOrigins {
  /** Default `prompt`. */
  readonly prompt?: 'messages' | 'prompt';
  /** Default `structured_outputs`. */
  readonly constraint?: string | undefined;
  /** Default `prompt_logprobs`. */
  readonly promptLogprobs?: string | undefined;
}

/** Names of parameters that the table of fields lacks. */
const OTHER_FIELDS: Readonly<Record<string, string>> = {
  adapter: 'model',
  maxTokens: 'max_tokens',
  chatTemplate: 'chat_template',
  continueFinalMessage: 'continue_final_message',
  requestId: 'request_id',
  useBeamSearch: 'use_beam_search',
  'reply.tools': 'tools',
  'reply.toolChoice': 'tool_choice',
};

export function toBackendFailure(
  { code, message, param, text = [message] }: EngineFailure,
  { prompt = 'prompt', constraint = 'structured_outputs', promptLogprobs = 'prompt_logprobs' }: ParamOrigins = {},
): BackendFailure {
  const fields: Readonly<Record<string, string>> = { ...OTHER_FIELDS, prompt, constraint, promptLogprobs };
  const fieldOf = (name: string): string =>
    Object.hasOwn(fields, name) ? fields[name]! : (fieldOfParam(name) ?? name);
  return new BackendFailure(code, renameFields(text, fieldOf), param === null ? null : fieldOf(param));
}

/** @throws {BackendFailure} instead of engine failures of `check` */
export function refusingAsBackend<Result>(check: () => Result, origins?: ParamOrigins): Result {
  try {
    return check();
  } catch (error) {
    throw toBackendFailure(toFailure(error), origins);
  }
}
