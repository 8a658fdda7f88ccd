import { expect, test } from 'vitest';

import { SCRIPTED_REQUEST } from '../../testing/scripted-answers.ts';
import { replies, ScriptedInference } from '../../testing/scripted-inference.ts';
import { openGeneration } from './chat-events.ts';

test.each([0, 1])('returning after %i of its events ends the generation and its source', async (numRead) => {
  const inference = new ScriptedInference();
  inference.script = (request) => replies(request, [{ ids: [5], text: 'a' }]);
  const meter = { promptTokens: 0, completionTokens: 0 };
  const { signal } = new AbortController();
  const generation = await openGeneration(inference, SCRIPTED_REQUEST, meter, { signal });
  for (let read = 0; read < numRead; read += 1) await generation.events.next();
  expect(inference.numEnded).toBe(0);
  await generation.end();
  expect(inference.numEnded).toBe(1);
  expect((await generation.events.next()).done).toBe(true);
});
