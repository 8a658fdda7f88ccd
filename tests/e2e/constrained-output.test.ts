/**
 * Output of the small model at temperature 1 under generated constraints, judged independently of their
 * enforcement: ajv for schemas, `RegExp` for expressions. Many requests are in flight at once, so that
 * sequences with many constraints share batches.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { expressions } from '../support/generated-expressions.ts';
import { boundedSchemas } from '../support/generated-schemas.ts';
import { isValidBy } from '../support/schema-judge.ts';
import { smallService } from '../support/small-service.ts';

const SEED = 20261121;
const NUM_SCHEMAS = 100;
const IN_FLIGHT = 32;
const TIMEOUT_MS = 600_000;

/** Typical constraints of users. */
const WRITTEN = [
  String.raw`\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])`,
  String.raw`[\w.+-]{1,12}@[a-z]{1,12}\.(com|org|net)`,
  String.raw`https?://[a-z0-9-]{1,20}(\.[a-z]{2,6}){1,2}(/[\w.-]{1,10}){0,3}`,
  String.raw`\+?\d{1,3}[ -]\(?\d{3}\)?[ -]\d{4}`,
  String.raw`#(?:[0-9a-fA-F]{3}){1,2}`,
  String.raw`(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}`,
  String.raw`[A-Z][a-z]{1,10}(?: [A-Z][a-z]{1,10}){0,2}`,
  String.raw`(yes|no|maybe), because .{5,40}\.`,
  String.raw`v\d{1,2}\.\d{1,2}\.\d{1,2}(?:-(?:alpha|beta|rc)\.\d)?`,
  String.raw`-?(?:0|[1-9]\d{0,5})(?:\.\d{1,3})?(?:[eE][+-]?\d{1,2})?`,
  String.raw`[01]{8}( [01]{8}){0,3}`,
  String.raw`(?<open>\()[^()\n]{1,20}\)`,
  String.raw`"[^"\\\n]{0,20}"`,
  String.raw`<(?:b|i)>[^<>\n]{1,20}</(?:b|i)>`,
  String.raw`(?:\p{Lu}\p{Ll}{1,6}\s?){1,3}`,
  String.raw`[\u{1F600}-\u{1F64F}]{1,4}`,
  String.raw`(?:ein|zwei|drei) (?:Äpfel|Öfen|Übungen)`,
  String.raw`SELECT [a-z_]{1,10} FROM [a-z_]{1,10}( WHERE [a-z_]{1,10} = \d{1,4})?;`,
  String.raw`- [^\n]{3,20}\n- [^\n]{3,20}\n- [^\n]{3,20}`,
  String.raw`[^\W\d_]{3,9}`,
  String.raw`\$\d{1,3}(?:,\d{3}){0,2}\.\d\d`,
  String.raw`(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?`,
  String.raw`\s{0,2}\S{1,10}\t\S{1,10}`,
  String.raw`(a|b)(c|d)?(e|f)*?g`,
  String.raw`[\]\[\\^-]{1,5}`,
];

interface Reply {
  readonly status: number;
  readonly content: string;
  readonly finishReason: string;
  readonly error: string;
}

let service: OwnService;
beforeAll(async () => {
  service = await smallService();
});
afterAll(async () => {
  await service.close();
});

async function ask(content: string, fields: object): Promise<Reply> {
  const response = await fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content }], temperature: 1, ...fields }),
  });
  const answer = (await response.json()) as {
    choices?: [{ message: { content: string }; finish_reason: string }];
    error?: { code: string; message: string };
  };
  const [choice] = answer.choices ?? [];
  const error = answer.error === undefined ? '' : `${answer.error.code}: ${answer.error.message}`;
  return {
    status: response.status,
    content: choice?.message.content ?? '',
    finishReason: choice?.finish_reason ?? '',
    error,
  };
}

/** Sends all of them, `IN_FLIGHT` at a time. */
async function askAll<T>(items: readonly T[], send: (item: T, index: number) => Promise<Reply>): Promise<Reply[]> {
  const replies: Reply[] = [];
  const queue = items.entries();
  const worker = async () => {
    for (const [index, item] of queue) replies[index] = await send(item, index);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  return replies;
}

interface Verdict {
  readonly whole: number;
  readonly cut: number;
  /** Replies that violate their constraint, and requests without an answer: must be empty. */
  readonly wrong: readonly string[];
}

/** Prints their ends. */
function judgeAll(
  name: string,
  replies: readonly Reply[],
  constraintOf: (index: number) => string,
  satisfies: (content: string, index: number) => boolean,
): Verdict {
  const ended = (reason: string) => replies.filter(({ finishReason }) => finishReason === reason).length;
  const [whole, cut] = [ended('stop'), ended('length')];
  const longest = Math.max(...replies.map(({ content }) => content.length));
  console.log(
    `${name}, seed ${SEED}: ${whole} whole, ${cut} cut off by their length, of ${replies.length}; up to ${longest} characters`,
  );
  const wrong = replies.flatMap(({ status, error, finishReason, content }, index) => {
    if (status !== 200) return [`${constraintOf(index)}: ${status} ${error}`];
    if (finishReason === 'length' || (finishReason === 'stop' && satisfies(content, index))) return [];
    return [`${constraintOf(index)} allowed ${JSON.stringify(content)} (${finishReason})`];
  });
  return { whole, cut, wrong };
}

describe('output of the model at temperature 1', () => {
  it(
    `under ${NUM_SCHEMAS} generated schemas is valid for ajv`,
    async () => {
      const schemas = fc.sample(boundedSchemas, { seed: SEED, numRuns: NUM_SCHEMAS });
      const replies = await askAll(schemas, (schema, index) =>
        ask('Make up an example, as JSON.', {
          seed: index,
          max_tokens: 600,
          ...(index % 2 === 0
            ? { response_format: { type: 'json_schema', json_schema: { name: 'example', schema } } }
            : { structured_outputs: { json: schema } }),
        }),
      );
      const judges = schemas.map((schema) => isValidBy(schema));
      const { whole, cut, wrong } = judgeAll(
        `${NUM_SCHEMAS} schemas`,
        replies,
        (index) => JSON.stringify(schemas[index]),
        (content, index) => judges[index]!(content),
      );
      expect(wrong).toEqual([]);
      expect(whole + cut).toBe(NUM_SCHEMAS);
      expect(whole).toBeGreaterThan(0.9 * NUM_SCHEMAS);
    },
    TIMEOUT_MS,
  );

  it(
    'under 50 expressions matches RegExp',
    async () => {
      const patterns = [...WRITTEN, ...fc.sample(expressions, { seed: SEED, numRuns: 50 - WRITTEN.length })];
      const judges = patterns.map((pattern) => new RegExp(`^(?:${pattern})$`, 'u'));
      const replies = await askAll(patterns, (regex, index) =>
        ask('Make up an example.', { seed: index, max_tokens: 120, structured_outputs: { regex } }),
      );
      const { whole, cut, wrong } = judgeAll(
        '50 expressions',
        replies,
        (index) => `/${patterns[index]}/`,
        (content, index) => judges[index]!.test(content),
      );
      expect(wrong).toEqual([]);
      expect(whole + cut).toBe(50);
      expect(whole).toBeGreaterThan(25);
    },
    TIMEOUT_MS,
  );
});
