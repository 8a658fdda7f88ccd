import { readFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import { converse, type Exchange } from './conversation.ts';
import { SKYRL_0_4 } from './fake-dialect.ts';
import { FakeTinkerServer } from './fake-tinker-server.ts';

/** Output of `npm run lab -- record-tinker`. */
const RECORDED = JSON.parse(
  readFileSync(new URL('recordings/skyrl-0.4.0.json', import.meta.url), 'utf8'),
) as readonly Exchange[];

test('the fake answers as SkyRL 0.4.0 was recorded to answer, refusals included', async () => {
  const server = await FakeTinkerServer.start(SKYRL_0_4);
  try {
    const answers = await converse(server.url);
    const recorded = new Map(RECORDED.map((exchange) => [exchange.name, exchange]));
    expect(answers.map(({ name }) => name)).toEqual([...recorded.keys()]);
    for (const answer of answers) expect(answer, answer.name).toEqual(recorded.get(answer.name));
  } finally {
    await server.close();
  }
});
