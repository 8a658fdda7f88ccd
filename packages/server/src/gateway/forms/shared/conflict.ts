import {
  type ChatCompletionRequest,
  type CompletionRequest,
  type FieldText,
  type NamedField,
  quoting,
} from '@trainyard/protocol';

import { placeOfParam, RequestError } from '../../../seams/faults/request-error.ts';

/** A field of a chat or of a text completion. Other forms are converted to one of these two, and rename it. */
export type SharedField = keyof ChatCompletionRequest | keyof CompletionRequest;
type SharedPath = SharedField | `${SharedField}.${string}`;

export type FormNames = Partial<Record<SharedPath, string>>;

/** A field of a chat or a text completion, or a member of it, for an error that each form renames. */
export function named(field: SharedPath): NamedField {
  return { field };
}

/**
 * Error for a value that contradicts another field, or that this model does not support.
 * @param field {@link named}; or a place in the body itself, if its form is known
 */
export function conflict(field: NamedField | string, text: FieldText | string): RequestError {
  return new RequestError('request.conflict', text, { param: field });
}

/** Error for a known field that requests an unsupported feature. @param field as in {@link conflict} */
export function unsupported(field: NamedField | string, reason: FieldText | string): RequestError {
  const head =
    typeof field === 'string' ? quoting`\`${field}\` is not supported: ` : quoting`${field} is not supported: `;
  const text = [...head, ...(typeof reason === 'string' ? [reason] : reason)];
  return new RequestError('request.unsupported', text, { param: field });
}

/** `request.invalid` for one value of a body, by its place there (`input.0.content`). */
export function invalidAt(path: string, msg: string, type: string): RequestError {
  return RequestError.invalid([{ loc: ['body', ...placeOfParam(path)], msg, type }]);
}
