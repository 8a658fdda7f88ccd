import type { KoffiFunc } from 'koffi';
import { bindKernel, kernelInstructionSets } from './kernel-library.ts';

/** Numbers of a token of one value head: [keySize, valueSize, α, β]. */
export type DeltaToken = Float64Array;

// oxlint-disable eslint/max-params -- functions in C
export interface DeltaKernels {
  /**
   * @param from state before the token [keySize, valueSize]; null: 0 @param to written, may be `from`
   * @param keys q, then k @param values of v, then written: Sᵀk, β (v - Sᵀk) and Sᵀq
   */
  readonly advance: KoffiFunc<
    (token: DeltaToken, from: Float32Array | null, to: Float32Array, keys: Float64Array, values: Float64Array) => void
  >;
  /**
   * @param before, after states @param dState ∂state after the token, which becomes ∂state before it
   * @param dKeys ∂q, then ∂k, which are added to @param dValues written: ∂v, as many spare numbers, ∂α and ∂β
   */
  readonly addGradient: KoffiFunc<
    (
      token: DeltaToken,
      keys: Float64Array,
      values: Float64Array,
      before: Float32Array | null,
      after: Float32Array,
      dOut: Float64Array,
      dState: Float32Array,
      dKeys: Float64Array,
      dValues: Float64Array,
    ) => void
  >;
}
// oxlint-enable eslint/max-params

/** Values of a state's row that the kernels multiply together. */
const VALUE_STEP = 8;

let found: DeltaKernels | null | undefined;

/**
 * Loops over the states of gated delta nets in C.
 *
 * @param valueSize values of a head
 * @returns null if there is no build for this platform, or the kernels do not compute heads of this size
 */
export function deltaKernels(valueSize: number): DeltaKernels | null {
  found ??= bind();
  return valueSize % VALUE_STEP === 0 ? found : null;
}

function bind(): DeltaKernels | null {
  const instructions = kernelInstructionSets()[0];
  if (instructions === undefined) return null;
  const pointers = (count: number) => Array.from({ length: count }, () => 'void *');
  return {
    advance: bindKernel('advance_delta', pointers(5), instructions),
    addGradient: bindKernel('add_delta_gradient', pointers(9), instructions),
  };
}
