import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';

const ALGORITHM = 'aes-128-ecb';
/** One block: the position, and zeros by which an id of this entity is known. */
const BLOCK_BYTES = 16;
const POSITION_BYTES = 8;

/**
 * The id of an event by its position among the events of all entities. It is encrypted under the entity's internal id, which no answer contains: positions
 * would tell a tenant how much the others do.
 */
export function eventIdOf(position: number, entityId: string): string {
  const block = Buffer.alloc(BLOCK_BYTES);
  block.writeBigUInt64BE(BigInt(position));
  const cipher = createCipheriv(ALGORITHM, keyOf(entityId), null).setAutoPadding(false);
  return Buffer.concat([cipher.update(block), cipher.final()]).toString('base64url');
}

/** The position of an event by its id; null when it is no id of an event that this entity can have seen. */
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
