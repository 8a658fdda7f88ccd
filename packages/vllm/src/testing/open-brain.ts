import { TokenEngine } from '@trainyard/engine';
import {
  byteTokenizer,
  EmbeddedTokenBackend,
  mixedLogits,
  ScriptedRunner,
  VOCAB_SIZE,
} from '@trainyard/engine/testing';

/**
 * Sampler of a fake: the engine over a model that is a function of its tokens. @param scale of its logits;
 * another one is another model
 */
export function openBrain(scale = 1): EmbeddedTokenBackend {
  const runner = new ScriptedRunner({
    vocabSize: VOCAB_SIZE,
    logits: (tokens, adapterPath, row) => {
      mixedLogits(tokens, adapterPath, row);
      if (scale !== 1) for (let id = 0; id < row.length; id++) row[id]! *= scale;
    },
  });
  return new EmbeddedTokenBackend({ modelId: 'scripted', engine: new TokenEngine({ runner, ends: byteTokenizer }) });
}
