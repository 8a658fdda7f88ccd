import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Prefix of every generated secret, so that people and scanners recognise one. */
const PREFIX = 'ty-';
const RANDOM_BYTES = 32;
const FORM = /^ty-([\w-]{43})([\w-]{6})$/;
/** Characters of a secret kept to distinguish keys: `ty-` and 24 of its 256 bits. */
const HINT_CHARACTERS = 7;

/**
 * Makes a secret: `ty-`, 256 random bits, and their CRC-32, which detects a mistyped secret without a query.
 */
export function makeKeySecret(): string {
  const random = randomBytes(RANDOM_BYTES).toString('base64url');
  return `${PREFIX}${random}${checksumOf(random)}`;
}

/** Start of a generated secret; null for an operator-chosen one, of which nothing is shown. */
export function hintOf(secret: string): string | null {
  return isIntact(secret) ? secret.slice(0, HINT_CHARACTERS) : null;
}

/** SHA-256 under which a secret is stored. */
export function digestOf(secret: string): Buffer {
  // One call, because every request computes it, and an incremental hash object costs several times as much.
  return hash('sha256', secret, 'buffer');
}

/** True if a text has the form of a generated secret but is damaged: mistyped or truncated. */
export function isDamagedSecret(secret: string): boolean {
  return secret.startsWith(PREFIX) && !isIntact(secret);
}

function isIntact(secret: string): boolean {
  const [, random, checksum] = FORM.exec(secret) ?? [];
  return random !== undefined && checksum === checksumOf(random);
}

/** Six characters for 32 bits. */
function checksumOf(random: string): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(`${PREFIX}${random}`));
  return bytes.toString('base64url');
}
