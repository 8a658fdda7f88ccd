/**
 * Hostile requests: each has one answer, a 4xx unless it is valid and cheap, and the service continues
 * normally.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { HOSTILE_REQUESTS } from '../support/hostile-requests.ts';
import { childrenOf, residentMb } from '../support/processes.ts';
import { smallService } from '../support/small-service.ts';

let service: OwnService;
let hostsBefore: number[];
let bystander: string;

beforeAll(async () => {
  service = await smallService();
  hostsBefore = childrenOf(service.pid);
  bystander = await greedyReply();
});
afterAll(async () => {
  await service.close();
});

async function send(body: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body,
  });
  return { status: response.status, text: await response.text() };
}

async function greedyReply(): Promise<string> {
  const { text } = await send(
    JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 8 }),
  );
  return (JSON.parse(text) as { choices: [{ message: { content: string } }] }).choices[0].message.content;
}

describe('a hostile request', () => {
  it.each(Object.entries(HOSTILE_REQUESTS))(
    '%s',
    async (_name, { body, ends }) => {
      const { status, text } = await send(body());
      const isRefused = status >= 400 && status < 500;
      expect({
        status,
        text: text.slice(0, 300),
        isFine: (ends !== 'refused' && status === 200) || (ends !== 'answered' && isRefused),
      }).toMatchObject({ isFine: true });
      const answer = JSON.parse(text) as {
        error?: { message: string; code: string };
        detail?: unknown;
        choices?: unknown[];
      };
      if (isRefused) {
        expect(answer).toMatchObject({ error: { message: expect.any(String), code: expect.any(String) } });
        expect(answer.detail).toBeDefined();
        // The client gets the fault, not its megabytes.
        expect(text.length).toBeLessThan(10_000);
      } else expect(answer.choices).toHaveLength(1);
    },
    60_000,
  );
});

it('the same processes remain, no larger than some hundred megabytes, with the same replies', async () => {
  expect(childrenOf(service.pid).filter((pid) => hostsBefore.includes(pid))).toEqual(hostsBefore);
  expect(await greedyReply()).toBe(bystander);
  const sizes = [service.pid, ...hostsBefore].map((pid) => Math.round(residentMb(pid).peak));
  console.log(
    `peak memory over ${Object.keys(HOSTILE_REQUESTS).length} hostile requests: ${sizes.join(', ')} MB (service, hosts)`,
  );
  for (const size of sizes) expect(size).toBeLessThan(1000);
});
