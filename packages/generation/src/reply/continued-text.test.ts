import type { ConstraintSpec } from '@trainyard/constraints';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { OPENED, prompt, reading, ReplyHarness, THINKER } from '../testing/reply-harness.ts';

/** Constraints on replies that continue the assistant's text: both together satisfy them. */

let harness: ReplyHarness;
beforeAll(async () => {
  harness = await ReplyHarness.create(['<think>', '</think>']);
});
afterAll(() => harness.close());

const SCHEMA: ConstraintSpec = {
  kind: 'json_schema',
  schema: { type: 'object', properties: { a: { enum: [1, 2] }, b: { type: 'string' } }, required: ['a', 'b'] },
  whitespace: { kind: 'capped' },
  closesObjects: true,
};
const PLAIN = { tools: null, toolChoice: 'none' } as const;

/** Returns the reply to a started text if the model prefers `wanted`; or its refusal. */
function replyTo(
  started: string | readonly { type: 'text'; text: string }[],
  wanted: string,
  constraint: ConstraintSpec,
  options: { reads?: boolean; source?: string; tools?: boolean } = {},
): string {
  const answer = harness.reply(
    wanted,
    {
      constraint,
      reply: options.tools ? reading() : options.reads === false ? null : reading(PLAIN),
      prompt: {
        ...prompt(),
        messages: [
          { role: 'user', content: 'Hi' },
          { role: 'assistant', content: started },
        ],
        addGenerationPrompt: false,
        continueFinalMessage: true,
      },
    },
    options.source ?? THINKER,
  );
  return answer.failed === undefined ? answer.text() : `refused: ${JSON.stringify(answer.failed.message)}`;
}

describe('a reply that continues a text', () => {
  const WHOLE = '{"a": 1, "b": "x"}';
  test.each(['{', '{"a"', '{"a":', '{"a": 1, "b": "', WHOLE.slice(0, -1), WHOLE, ' \n{"a": 1'])(
    'is the rest of the JSON that starts with %j, also for a model that starts again',
    (started) => {
      const rest = WHOLE.slice(started.trimStart().length);
      expect(replyTo(started, rest, SCHEMA)).toBe(rest);
      expect(JSON.parse(started + replyTo(started, WHOLE, SCHEMA))).toMatchObject({ a: expect.any(Number) });
    },
  );

  test.each<[string, ConstraintSpec, string, string]>([
    ['a regular expression', { kind: 'regex', pattern: 'ab+c' }, 'ab', 'bbc'],
    ['a choice', { kind: 'choice', choices: ['red', 'reed', 'blue'] }, 're', 'ed'],
    ['a grammar', { kind: 'grammar', source: 'root ::= "x" [0-9]+ "y"' }, 'x1', '2y'],
    ['an object', { kind: 'json_object', whitespace: { kind: 'none' } }, '{"k":', '[1]}'],
  ])('is the rest of %s', (_name, constraint, started, rest) => {
    expect(replyTo(started, rest, constraint)).toBe(rest);
    expect(replyTo([{ type: 'text', text: started }], rest, constraint, { reads: false })).toBe(rest);
    expect(replyTo(started, rest, constraint, { tools: true })).toBe(rest);
  });

  test.each(['Here: {', '{"c"', '{"a": 3', `${WHOLE}{`, '[', '{"b"'])('is refused by name after %j', (started) => {
    expect(replyTo(started, '{"a": 1}', SCHEMA)).toMatch(/^refused: .*the text to continue \(.*\) cannot start a text/);
  });

  test('starts the JSON if the text ended with thoughts', () => {
    expect(replyTo('<think>Hm.', `</think>${WHOLE}`, SCHEMA, { source: OPENED })).toBe(`</think>${WHOLE}`);
    expect(replyTo('<think>Hm.</think>\n\n{"a": 2,', ' "b": ""}', SCHEMA)).toBe(' "b": ""}');
    expect(replyTo('<think>Hm.</think>', WHOLE, SCHEMA)).toBe(WHOLE);
  });
});
