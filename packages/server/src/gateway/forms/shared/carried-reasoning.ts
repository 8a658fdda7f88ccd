/**
 * Reasoning in a text of letters and digits: clients that keep a conversation themselves send back `encrypted_content`, or a signature, and often nothing else of
 * it. Nobody is kept from reading it.
 */

/** Tells it apart from what another service has encrypted. */
const PREFIX = 'trainyard_';

/** @returns letters, digits, `_` and `-` alone */
export function carryReasoning(text: string): string {
  return PREFIX + Buffer.from(text).toString('base64url');
}

/** @returns the text; null for what this service did not write */
export function carriedReasoning(carried: string): string | null {
  if (!carried.startsWith(PREFIX)) return null;
  const bytes = Buffer.from(carried.slice(PREFIX.length), 'base64url');
  const text = bytes.toString();
  // What is no base64 of a text is spelled otherwise when it is written again.
  return carryReasoning(text) === carried ? text : null;
}
