/**
 * Reasoning as letters and digits, not encrypted: clients that keep a conversation themselves send back
 * `encrypted_content`, or a signature, and often nothing else of it.
 */

/** Distinguishes it from another service's encrypted text. */
const PREFIX = 'trainyard_';

/** @returns only letters, digits, `_` and `-` */
export function carryReasoning(text: string): string {
  return PREFIX + Buffer.from(text).toString('base64url');
}

/** @returns the text; null for text from another service */
export function carriedReasoning(carried: string): string | null {
  if (!carried.startsWith(PREFIX)) return null;
  const bytes = Buffer.from(carried.slice(PREFIX.length), 'base64url');
  const text = bytes.toString();
  // Invalid base64 differs when encoded again.
  return carryReasoning(text) === carried ? text : null;
}
