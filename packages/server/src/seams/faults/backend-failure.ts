import { type EngineErrorCode, type EngineFailure, toFailure } from '@trainyard/backend';
import { fieldOfParam, type FieldNames, type FieldText, renameFields, sayFields } from '@trainyard/protocol';

/** A failure that a back end reported as data. It names fields as chats and text completions do. */
export class BackendFailure extends Error {
  override readonly name = 'BackendFailure';
  readonly code: EngineErrorCode;
  /** The field at fault. */
  readonly param: string | null;
  readonly text: FieldText;

  constructor(code: EngineErrorCode, text: FieldText | string, param: string | null) {
    super(typeof text === 'string' ? text : sayFields(text));
    this.code = code;
    this.param = param;
    this.text = typeof text === 'string' ? [text] : text;
  }

  /** As the clients of a form know its fields. */
  inForm(nameOf: FieldNames): BackendFailure {
    const { code, param, text } = this;
    return new BackendFailure(code, renameFields(text, nameOf), param === null ? null : nameOf(param));
  }
}

/** Where in a request the prompt and the constraint came from, and what asks for scores of the prompt. */
export interface ParamOrigins {
  /** Default `prompt`. */
  readonly prompt?: 'messages' | 'prompt';
  /** Default `structured_outputs`. */
  readonly constraint?: string | undefined;
  /** Default `prompt_logprobs`. */
  readonly promptLogprobs?: string | undefined;
}

/** Names of parameters that the table of fields does not have. */
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

/** The failure of an engine, which names parameters, in the names of fields. */
export function toBackendFailure(
  { code, message, param, text = [message] }: EngineFailure,
  { prompt = 'prompt', constraint = 'structured_outputs', promptLogprobs = 'prompt_logprobs' }: ParamOrigins = {},
): BackendFailure {
  const fields: Readonly<Record<string, string>> = { ...OTHER_FIELDS, prompt, constraint, promptLogprobs };
  const fieldOf = (name: string): string =>
    Object.hasOwn(fields, name) ? fields[name]! : (fieldOfParam(name) ?? name);
  return new BackendFailure(code, renameFields(text, fieldOf), param === null ? null : fieldOf(param));
}

/** Runs what refuses as an engine does. @throws {BackendFailure} in its place */
export function refusingAsBackend<Result>(check: () => Result, origins?: ParamOrigins): Result {
  try {
    return check();
  } catch (error) {
    throw toBackendFailure(toFailure(error), origins);
  }
}
