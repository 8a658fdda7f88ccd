import { EmbeddedTokenBackend, TokenEngine } from '@trainyard/engine';
import { byteTokenizer, mixedLogits, ScriptedRunner, VOCAB_SIZE } from '@trainyard/engine/testing';

/** The sampler behind a fake: the engine over a model that is a function of its tokens. */
export function openBrain(): EmbeddedTokenBackend {
  const runner = new ScriptedRunner({ vocabSize: VOCAB_SIZE, logits: mixedLogits });
  return new EmbeddedTokenBackend({ modelId: 'scripted', engine: new TokenEngine({ runner, ends: byteTokenizer }) });
}
