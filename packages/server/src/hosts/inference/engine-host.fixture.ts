/**
 * An engine host with a scripted model: every reply is `x` until its limit. The engine steps in this process,
 * like the real one.
 */
import { openScriptedEngine } from '@trainyard/generation/testing';

import { serveText } from './serve-text.ts';

const scripted = await openScriptedEngine({ runsRequestTemplates: false });

await serveText(async () => ({
  engine: scripted.engine,
  model: { path: '', architecture: 'scripted', ...scripted.model },
  codec: scripted.codec,
  coreUse: 'alone',
  health: async () => ({ problem: null }),
  close: () => scripted.close(),
}));
