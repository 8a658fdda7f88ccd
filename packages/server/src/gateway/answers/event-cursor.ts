import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';

const ALGORITHM = 'aes-128-ecb';
/** One block: the position, and zeros that authenticate an id of this entity. */
const BLOCK_BYTES = 16;
const POSITION_BYTES = 8;

/**
 * Converts an event's position among all entities' events to its id. Encrypted with the entity's internal id,
 * because plain positions would reveal the activity of other tenants.
 */
export function eventIdOf(position: number, entityId: string): string {
  const block = Buffer.alloc(BLOCK_BYTES);
  block.writeBigUInt64BE(BigInt(position));
  const cipher = createCipheriv(ALGORITHM, keyOf(entityId), null).setAutoPadding(false);
  return Buffer.concat([cipher.update(block), cipher.final()]).toString('base64url');
}

/** Position of an event by its id; null if the id cannot belong to an event of this entity. */
export function positionOfEvent(id: string, entityId: string): number | null {
  const block = Buffer.from(id, 'base64url');
  if (block.length !== BLOCK_BYTES) return null;
  const decipher = createDecipheriv(ALGORITHM, keyOf(entityId), null).setAutoPadding(false);
  const plain = Buffer.concat([decipher.update(block), decipher.final()]);
  if (plain.subarray(POSITION_BYTES).some((byte) => byte !== 0)) return null;
  const position = Number(plain.readBigUInt64BE());
  return Number.isSafeInteger(position) ? position : null;
}

function keyOf(entityId: string): Buffer {
  return createHash('sha256').update(`events of ${entityId}`).digest().subarray(0, 16);
}
