const HEAD_BYTES = 5;

/** Cuts what one end of a PostgreSQL connection sends into messages, behind the first one of a client: a letter, a length that counts itself, and so many bytes. */
export class PostgresMessages {
  #rest: Buffer = Buffer.alloc(0);

  /** @returns the messages that are whole now */
  take(bytes: Buffer): Buffer[] {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const messages: Buffer[] = [];
    let at = 0;
    while (at + HEAD_BYTES <= all.length && at + 1 + all.readUInt32BE(at + 1) <= all.length) {
      const end = at + 1 + all.readUInt32BE(at + 1);
      messages.push(all.subarray(at, end));
      at = end;
    }
    this.#rest = all.subarray(at);
    return messages;
  }
}

/** The letter of a message, which says what it is. */
export function kindOf(message: Buffer): string {
  return String.fromCodePoint(message[0] ?? 0);
}

/** A message of that kind. */
export function makeMessage(kind: string, body: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(kind, 'latin1');
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
