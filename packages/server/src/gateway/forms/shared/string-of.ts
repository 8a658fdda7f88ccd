import { invalidAt } from './conflict.ts';

/** A member of a block or an item that has to be a text. @param place of what it is a member of @throws {RequestError} `request.invalid` */
export function stringOf(value: Readonly<Record<string, unknown>>, name: string, place: string): string {
  const member = value[name];
  if (typeof member === 'string') return member;
  throw member === undefined
    ? invalidAt(`${place}.${name}`, 'Field required', 'missing')
    : invalidAt(`${place}.${name}`, 'Input should be a valid string', 'string_type');
}
