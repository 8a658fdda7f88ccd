import * as wasm from '../wasm/wasm-code.ts';
import type { WasmFunction } from '../wasm/wasm-code.ts';
import { PAGE_TOKENS, SCORE_BYTES } from './page-format.ts';

const { code, get, set, i32, addI32, advance, repeat, repeatWhileBelow, I32 } = wasm;

export function gatherFunction(headSize: number): WasmFunction {
  const [pages, pagesEnd, keys, values, toKeys, toValues, from, to, end] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const rowBytes = 4 * headSize;
  const pageOf = (base: number) => code(get(pages), wasm.loadI32(0), get(base), addI32, set(from));
  return {
    name: 'gather',
    parameters: [I32, I32, I32, I32, I32, I32],
    locals: [[3, I32]],
    code: repeatWhileBelow(
      pages,
      pagesEnd,
      code(
        // [D, 16] → [16, D]
        code(pageOf(keys), get(toKeys), set(to), get(toKeys), i32(rowBytes), addI32, set(end)),
        repeatWhileBelow(
          to,
          end,
          code(
            repeat(PAGE_TOKENS, (token) =>
              code(get(to), get(from), wasm.loadF32(4 * token), wasm.storeF32(token * rowBytes)),
            ),
            advance(from, SCORE_BYTES),
            advance(to, 4),
          ),
        ),
        code(pageOf(values), get(toValues), i32(PAGE_TOKENS * rowBytes), addI32, set(end)),
        repeatWhileBelow(
          toValues,
          end,
          code(get(toValues), get(from), wasm.load4(0), wasm.store4(0), advance(from, 16), advance(toValues, 16)),
        ),
        advance(toKeys, PAGE_TOKENS * rowBytes),
        advance(pages, 4),
      ),
    ),
  };
}
