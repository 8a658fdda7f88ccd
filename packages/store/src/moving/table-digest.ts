import { createHash } from 'node:crypto';
import type { SqlRow } from '../contract/sql.ts';
import type { TableName } from './table-names.ts';

/** Content of a table, independent of the database and of the order of rows. */
export interface TableDigest {
  readonly table: TableName;
  readonly numRows: number;
  /** Hexadecimal: the sum of the SHA-256 of all rows, modulo 2²⁵⁶. */
  readonly digest: string;
}

const MODULUS = 1n << 256n;

export class RowSum {
  #numRows = 0;
  #sum = 0n;

  add(row: SqlRow): void {
    const cells = Object.keys(row)
      .toSorted()
      .map((name) => [name, row[name] instanceof Uint8Array ? { bytes: hex(row[name]) } : row[name]]);
    this.#sum = (this.#sum + BigInt(`0x${sha256(JSON.stringify(cells))}`)) % MODULUS;
    this.#numRows += 1;
  }

  of(table: TableName): TableDigest {
    return { table, numRows: this.#numRows, digest: this.#sum.toString(16).padStart(64, '0') };
  }
}

export function digestOf(tables: readonly TableDigest[]): string {
  return sha256(tables.map(({ table, numRows, digest }) => `${table} ${numRows} ${digest}\n`).join(''));
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}
