import { LlamaModel } from '@trainyard/native';
import { Tokenizer } from '@trainyard/tokenizer';
import { llamaLogprobs } from './llama-logprobs.ts';
import { parityTokens } from './parity.ts';

/** Enough tokens to distinguish models, few enough to compute at each start. */
const NUM_TOKENS = 64;

/**
 * First tokens of a fixed text, and llama.cpp's log-probabilities for a model file.
 *
 * @returns one log-probability per token, null for the first
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
