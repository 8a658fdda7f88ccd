import { Trainyard } from '@trainyard/sdk';
import { expect, test } from 'vitest';

import { unknownFieldOf } from './unknown-field.ts';

/** A service that answers requests for its document with this. */
function service(answer: () => Response) {
  let numAsked = 0;
  const fetch = async () => {
    numAsked += 1;
    return answer();
  };
  const client = new Trainyard({ baseUrl: 'http://h:1/v1', apiKey: 'k', fetch, maxRetries: 0 });
  return { client, numAsked: () => numAsked };
}

const properties = { stop: {}, temperature: {}, top_p: {}, max_completion_tokens: {}, max_tokens: {} };
const telling = () => Response.json({ components: { schemas: { ChatCompletionRequest: { properties } } } });

test.each([
  ['temprature', 'unknown chat field temprature (did you mean temperature?); http://h:1/docs lists all fields'],
  ['max_token', 'unknown chat field max_token (did you mean max_tokens?); http://h:1/docs lists all fields'],
  ['temp', 'unknown chat field temp (did you mean temperature?); http://h:1/docs lists all fields'],
  ['Temp', 'unknown chat field Temp (did you mean temperature?); http://h:1/docs lists all fields'],
  ['max', 'unknown chat field max (did you mean max_tokens?); http://h:1/docs lists all fields'],
  ['step', 'unknown chat field step (did you mean stop?); http://h:1/docs lists all fields'],
  ['t', 'unknown chat field t; http://h:1/docs lists all fields'],
  ['colour', 'unknown chat field colour; http://h:1/docs lists all fields'],
])('the field %s is none of the service', async (name, expected) => {
  expect(await unknownFieldOf(service(telling).client, ['top_p', name])).toBe(expected);
});

test('fields of the service are accepted, and no request is made if none is set', async () => {
  const { client, numAsked } = service(telling);
  expect(await unknownFieldOf(client, ['temperature', 'top_p'])).toBeNull();
  expect(numAsked()).toBe(1);
  expect(await unknownFieldOf(client, [])).toBeNull();
  expect(numAsked()).toBe(1);
});

test('a service without a list of its fields gets them unchanged, and an unreachable one is an error', async () => {
  expect(await unknownFieldOf(service(() => Response.json({}, { status: 404 })).client, ['x'])).toBeNull();
  expect(await unknownFieldOf(service(() => Response.json({ components: { schemas: {} } })).client, ['x'])).toBeNull();
  const away = service(() => {
    throw new TypeError('fetch failed');
  });
  await expect(unknownFieldOf(away.client, ['x'])).rejects.toThrow('http://h:1/v1');
});
