import { LlamaModel } from '@trainyard/native';
import { Tokenizer } from '@trainyard/tokenizer';
import { llamaLogprobs } from './llama-logprobs.ts';
import { parityTokens } from './parity.ts';

/** Enough to distinguish models, few enough to compute at each start. */
const NUM_TOKENS = 64;

/**
 * @returns llama.cpp's log-probability per token of a fixed text, null for the first
 * @throws {NativeError} `native.model_unreadable`
 */
export async function llamaScores(
  modelPath: string,
  numThreads: number,
): Promise<{ tokenIds: number[]; logprobs: (number | null)[] }> {
  const tokenIds = fixedTokens(modelPath);
  const logprobs = await llamaLogprobs({ modelPath, adapterPath: null }, tokenIds, { numThreads });
  return { tokenIds: [...tokenIds], logprobs: [null, ...logprobs] };
}

function fixedTokens(modelPath: string): Int32Array {
  using vocabulary = LlamaModel.load(modelPath, { vocabOnly: true });
  return parityTokens(Tokenizer.fromModel(vocabulary)).slice(0, NUM_TOKENS);
}
