import { LlamaAdapter, LlamaContext, LlamaModel } from '@trainyard/native';
import type { ComputeOptions } from '../model/policy-model.ts';

// About 100 ms of the default model: one turn on shared cores.
const TOKENS_A_TURN = 32;

/**
 * Log-probabilities of every token except the first, [T - 1], by llama.cpp.
 *
 * @throws {NativeError} `native.model_unreadable`, `native.adapter_unreadable`, `native.decode_failed`
 */
export async function llamaLogprobs(
  files: { readonly modelPath: string; readonly adapterPath: string | null },
  tokenIds: Int32Array,
  options: ComputeOptions & { readonly numThreads: number },
): Promise<Float64Array> {
  const { numThreads, gate, signal } = options;
  using model = LlamaModel.load(files.modelPath);
  using context = new LlamaContext(model, {
    contextTokens: tokenIds.length,
    maxSequences: 1,
    batchTokens: TOKENS_A_TURN,
    numThreads,
  });
  // The model closes it.
  if (files.adapterPath !== null) context.setAdapter(LlamaAdapter.load(model, files.adapterPath));
  const inputs = tokenIds.subarray(0, -1);
  const logprobs = new Float64Array(inputs.length);
  // Threads spin at barriers: while another process has a core, one thread can be many times faster, so both are
  // tried.
  const turnMs: number[] = [];
  for (let start = 0; start < inputs.length; start += TOKENS_A_TURN) {
    signal?.throwIfAborted();
    await gate?.acquire(signal);
    const startedAt = performance.now();
    context.setNumThreads(turnMs.length === 0 || turnMs[0]! < (turnMs[1] ?? 0) ? numThreads : 1);
    try {
      const turn = inputs.subarray(start, start + TOKENS_A_TURN);
      context.batch.clear();
      turn.forEach((id, row) => context.batch.add(id, start + row, 0, true));
      context.decode();
      const logits = context.logits(); // [turn, V]
      for (const row of turn.keys()) {
        const from = row * model.vocabSize;
        const target = tokenIds[start + row + 1]!;
        logprobs[start + row] = logSoftmaxAt(logits.subarray(from, from + model.vocabSize), target);
      }
      turnMs.push(performance.now() - startedAt);
    } finally {
      gate?.release();
    }
  }
  return logprobs;
}

function logSoftmaxAt(logits: Float32Array, index: number): number {
  let max = -Infinity;
  for (const logit of logits) max = Math.max(max, logit);
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - max);
  return logits[index]! - max - Math.log(sum);
}
