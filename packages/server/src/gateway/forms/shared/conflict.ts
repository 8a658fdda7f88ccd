import {
  type ChatCompletionRequest,
  type CompletionRequest,
  type FieldText,
  type NamedField,
  quoting,
} from '@trainyard/protocol';

import { placeOfParam, RequestError } from '../../../seams/faults/request-error.ts';

/** A field of a chat or of a text completion. Other forms are read as one of these two, and have names of their own for it. */
export type SharedField = keyof ChatCompletionRequest | keyof CompletionRequest;
type SharedPath = SharedField | `${SharedField}.${string}`;

/** A form's own names for the fields that it is read as. */
export type FormNames = Partial<Record<SharedPath, string>>;

/** A field of a chat or of a text completion, or what is within it, for an error that every form says in its own words. */
export function named(field: SharedPath): NamedField {
  return { field };
}

/**
 * A value that contradicts another field, or that this model cannot take.
 *
 * @param field {@link named}; or a place in the body itself, where its form is known
 */
export function conflict(field: NamedField | string, text: FieldText | string): RequestError {
  return new RequestError('request.conflict', text, { param: field });
}

/** A known field that asks for what this service does not do. @param field as of {@link conflict} */
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
