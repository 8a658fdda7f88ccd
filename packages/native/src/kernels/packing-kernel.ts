import type { KoffiFunc } from 'koffi';
import { kernelLibrary } from './kernel-library.ts';

type PackRows = KoffiFunc<
  // oxlint-disable-next-line eslint/max-params -- a function in C
  (typeId: number, raw: Uint8Array, order: Uint32Array, numRows: number, numColumns: number, into: Uint8Array) => void
>;

let found: PackRows | null | undefined;

/**
 * Packs rows of a matrix, in C.
 *
 * @param order row of `raw` for each packed one
 * @param into as many bytes as the packed rows take
 * @returns false if there is no build for this platform: nothing was written
 */
export function packRowsInC(
  typeId: number,
  raw: Uint8Array,
  { order, numColumns }: { readonly order: Uint32Array; readonly numColumns: number },
  into: Uint8Array,
): boolean {
  found ??= bind();
  if (found === null) return false;
  found(typeId, raw, order, order.length, numColumns, into);
  return true;
}

function bind(): PackRows | null {
  const types = ['int32', 'void *', 'void *', 'int64', 'int64', 'void *'];
  return (kernelLibrary()?.handle.func('pack_rows', 'void', types) as PackRows | undefined) ?? null;
}
