const HEAD_BYTES = 5;

/**
 * Splits the bytes of one end of a PostgreSQL connection into messages, after a client's first one: a letter,
 * a length that includes itself, and the rest.
 */
export class PostgresMessages {
  #rest: Buffer = Buffer.alloc(0);

  /** @returns the messages that are complete now */
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

/** Letter of a message, which is its kind. */
export function kindOf(message: Buffer): string {
  return String.fromCodePoint(message[0] ?? 0);
}

export function makeMessage(kind: string, body: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(kind, 'latin1');
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
