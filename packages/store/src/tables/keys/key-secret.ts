import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Prefix of every secret made here, so that people and scanners know one when they see it. */
const PREFIX = 'ty-';
const RANDOM_BYTES = 32;
const FORM = /^ty-([\w-]{43})([\w-]{6})$/;
/** So much of a secret is kept to tell keys apart: `ty-` and 24 of its 256 bits. */
const HINT_CHARACTERS = 7;

/** `ty-`, 256 random bits, and their CRC-32: a mistyped secret is noticed without asking anybody. */
export function makeKeySecret(): string {
  const random = randomBytes(RANDOM_BYTES).toString('base64url');
  return `${PREFIX}${random}${checksumOf(random)}`;
}

/** The beginning of a secret that was made here; null for one that somebody chose, of which nothing is shown. */
export function hintOf(secret: string): string | null {
  return isIntact(secret) ? secret.slice(0, HINT_CHARACTERS) : null;
}

/** The SHA-256 under which a secret is kept. */
export function digestOf(secret: string): Buffer {
  // In one piece: every request comes here, and an object that takes pieces costs several times as much.
  return hash('sha256', secret, 'buffer');
}

/** Whether a text looks like a secret that was made here and is none: mistyped, or cut off. */
export function isDamagedSecret(secret: string): boolean {
  return secret.startsWith(PREFIX) && !isIntact(secret);
}

function isIntact(secret: string): boolean {
  const [, random, checksum] = FORM.exec(secret) ?? [];
  return random !== undefined && checksum === checksumOf(random);
}

/** 32 bits are six characters. */
function checksumOf(random: string): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(`${PREFIX}${random}`));
  return bytes.toString('base64url');
}
