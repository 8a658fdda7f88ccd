import { describeTokenBackend } from '@trainyard/backend/testing';
import { byteTokenizer, mixedLogits, VOCAB_SIZE } from './scripted-logits.ts';
import { ScriptedRunner, type ScriptedRunnerOptions } from './scripted-runner.ts';
import { EmbeddedTokenBackend } from './embedded-token-backend.ts';
import { TokenEngine } from '../tokens/token-engine.ts';

const KINDS: Record<string, Partial<ScriptedRunnerOptions>> = {
  'the engine': {},
  'the engine over a runner that answers later, mixes adapters and draws': {
    answersLater: true,
    adaptersPerBatch: 3,
    drawsOnDevice: true,
  },
};

for (const [name, options] of Object.entries(KINDS)) {
  describeTokenBackend(name, () => {
    const runner = new ScriptedRunner({ vocabSize: VOCAB_SIZE, logits: mixedLogits, ...options });
    return {
      backend: new EmbeddedTokenBackend({
        modelId: 'scripted',
        engine: new TokenEngine({ runner, ends: byteTokenizer }),
      }),
      promptIds: [...Buffer.from('a prompt of a test')],
      adapters: [
        { digest: 'one', directory: 'one' },
        { digest: 'another', directory: 'another' },
      ],
      tolerance: 1e-6,
    };
  });
}
