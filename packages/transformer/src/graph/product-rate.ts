import { input, matmul } from './graph.ts';
import { GraphSession, float32 } from './session.ts';

// The fastest shape in ONNX Runtime among those similar to training; square ones of 2,048 were 15 % slower.
const [M, K, N] = [888, 1544, 576];

/** Rate in GF/s of a large float32 product: the best of several runs. */
export function measureProductRate(numThreads: number, numRuns = 12): number {
  const product = matmul(input('x', [M, K]), input('weight', [N, K]), { transposeB: true });
  const session = new GraphSession({ product }, { numThreads });
  const x = float32(new Float32Array(M * K).fill(0.5), [M, K]);
  const weight = float32(new Float32Array(N * K).fill(0.5), [N, K]);
  const result = float32(new Float32Array(M * N), [M, N]);
  let best = 0;
  for (let run = 0; run < numRuns; run++) {
    const started = performance.now();
    session.run({ x, weight }, { product: result });
    best = Math.max(best, (2 * M * K * N) / (performance.now() - started) / 1e6);
  }
  session.close();
  return best;
}
