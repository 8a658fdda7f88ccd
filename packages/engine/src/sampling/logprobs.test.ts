import { describe, expect, test } from 'vitest';
import { Harness } from '../testing/token-harness.ts';
import { mixedLogits, VOCAB_SIZE } from '../testing/scripted-logits.ts';
import type { RequestOptions, Transcript } from '../testing/token-harness.ts';

const PROMPT = [...Buffer.from('hello')];

function sample(options: RequestOptions): Transcript {
  const harness = new Harness();
  const transcript = harness.submit({ prompt: PROMPT, logprobs: 0, maxTokens: 6, ignoreEos: true, ...options });
  harness.run();
  return transcript;
}

describe('entries of chosen ids', () => {
  const ids = [200, 3, 97, 3];

  test('follow the sampled token in their own order, each once, with the values of the model', () => {
    const transcript = sample({ logprobTokenIds: ids });
    const tokens = transcript.tokenIds();
    let largest = 0;
    for (const [place, entry] of transcript.logprobs().entries()) {
      const row = new Float32Array(VOCAB_SIZE);
      mixedLogits([...PROMPT, ...tokens.slice(0, place)], null, row);
      const total = Math.log(row.reduce((sum, logit) => sum + Math.exp(logit), 0));
      expect(entry.top.map(({ id }) => id)).toEqual([
        tokens[place],
        ...[200, 3, 97].filter((id) => id !== tokens[place]),
      ]);
      for (const { id, logprob } of entry.top) largest = Math.max(largest, Math.abs(logprob - (row[id]! - total)));
    }
    console.log(`logprobs of chosen ids: largest difference ${largest.toExponential(1)}`);
    expect(largest).toBeLessThan(1e-6); // logits are float32
  });

  test('replace the most likely ones, and a sampled token among them is not listed twice', () => {
    const [first] = sample({}).tokenIds();
    const transcript = sample({ logprobs: 5, logprobTokenIds: [7, first!, 8] });
    expect(transcript.logprobs()[0]?.top.map(({ id }) => id)).toEqual([first, 7, 8]);
    expect(
      sample({ logprobTokenIds: [] })
        .logprobs()[0]
        ?.top.map(({ id }) => id),
    ).toEqual([first]);
  });

  test('are at the floor if they cannot come, and change no token', () => {
    const options = { sampling: { temperature: 1, seed: 5n }, allowedTokenIds: [97, 98, 99] };
    const plain = sample(options);
    const scored = sample({ ...options, logprobTokenIds: [100, 97], logprobsMode: 'processed' });
    expect(scored.tokenIds()).toEqual(plain.tokenIds());
    for (const { top } of scored.logprobs()) expect(top.find(({ id }) => id === 100)?.logprob).toBe(-9999);
  });
});
