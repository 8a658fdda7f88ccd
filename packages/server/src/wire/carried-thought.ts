/**
 * A thought as an opaque value. Clients that show no thoughts send them back in the fields in which the original APIs have them encrypted
 * (`encrypted_content`, `signature`), and nowhere else. Nothing is secret here: who knows the form can read it.
 */
const MARK = 'trainyard-thought.';

/** @returns never empty: clients drop thoughts whose value is */
export function carry(thought: string): string {
  return `${MARK}${Buffer.from(thought).toString('base64')}`;
}

/** The thought that {@link carry} was given; null for any other value. */
export function carried(value: unknown): string | null {
  if (typeof value !== 'string' || !value.startsWith(MARK)) return null;
  return Buffer.from(value.slice(MARK.length), 'base64').toString();
}
