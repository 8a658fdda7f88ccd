import { describeTokenBackend } from './token-backend.suite.ts';
import { ScriptedTokenBackend } from './scripted-token-backend.ts';

describeTokenBackend('scripted', () => ({
  backend: new ScriptedTokenBackend((tokens, adapter, row) => {
    for (let id = 0; id < row.length; id++)
      row[id] = Math.sin(id * 12.9 + tokens.length * 4.1 + (adapter?.length ?? 0)) * 3;
  }),
  promptIds: [...Buffer.from('a prompt of a test')],
  adapters: [
    { digest: 'one', directory: 'nowhere' },
    { digest: 'another', directory: 'nowhere' },
  ],
  tolerance: 1e-6,
}));
