import { invalidAt } from './conflict.ts';

/** Text member of a block or an item. @param place of its owner @throws {RequestError} `request.invalid` */
export function stringOf(value: Readonly<Record<string, unknown>>, name: string, place: string): string {
  const member = value[name];
  if (typeof member === 'string') return member;
  throw member === undefined
    ? invalidAt(`${place}.${name}`, 'Field required', 'missing')
    : invalidAt(`${place}.${name}`, 'Input should be a valid string', 'string_type');
}
