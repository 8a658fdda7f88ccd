/** An engine host whose model is a function: every reply is `x` until its limit. The engine steps in this process, as the real one does. */
import { openScriptedEngine } from '@trainyard/generation/testing';

import { serveText } from './serve-text.ts';

const scripted = await openScriptedEngine({ runsRequestTemplates: false });

await serveText(async () => ({
  engine: scripted.engine,
  model: { path: '', architecture: 'scripted', ...scripted.model },
  codec: scripted.codec,
  coreUse: 'alone',
  health: async () => ({ trouble: null }),
  close: () => scripted.close(),
}));
