import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import { type AgentEvent, type CodingAgent, openClaudeCode, openCodex } from '../support/coding-agents.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

/**
 * Whole sessions of Codex and Claude Code: turns, calls and their results, compaction, and a resumed session.
 * Run by `npm run lab -- agents`.
 */

const FOLDER = process.env['TRAINYARD_TEST_AGENTS'] ?? '';
const TIMEOUT_MS = 1_500_000;
/** About 19,000 tokens of the scripted model, one per byte. */
const LONG = 'seq 1 4000;';

let service: ScriptedServiceProcess;
beforeAll(async () => {
  service = await scriptedService(['--part', 'agent']);
});
afterAll(() => service.close());

let agent: CodingAgent | null = null;
afterEach(async () => {
  await agent?.close();
  agent = null;
});

interface Played {
  readonly requests: readonly { readonly path: string; readonly status: number; readonly refusal: unknown }[];
  readonly numSummaries: number;
}

/** Requests since the last call, none of which was refused. */
async function played(path: string): Promise<{ numRequests: number; numSummaries: number }> {
  const { requests, numSummaries } = (await (await fetch(new URL('/played', service.url))).json()) as Played;
  expect(requests.filter(({ status }) => status !== 200)).toEqual([]);
  expect(new Set(requests.map((request) => request.path.split('?')[0]))).toEqual(new Set([path]));
  return { numRequests: requests.length, numSummaries };
}

describe('Codex', () => {
  const lastText = (events: readonly AgentEvent[]) =>
    events
      .flatMap(({ item }) => (item as { type?: string; text?: string } | undefined) ?? [])
      .findLast(({ type }) => type === 'agent_message')?.text;

  test(
    'calls tools, compacts the conversation meanwhile and continues in another process',
    { timeout: TIMEOUT_MS },
    async () => {
      const codex = (agent = await openCodex(FOLDER, service, { contextLength: 120_000, compactAt: 60_000 }));
      const first = await codex.run('plan: echo mark-one | echo mark-two');
      expect(lastText(first)).toBe('Done: mark-one, mark-two');
      expect(await played('/v1/responses')).toEqual({ numRequests: 3, numSummaries: 0 });

      const plan = `plan: ${LONG} echo mark-three | ${LONG} echo mark-four | ${LONG} echo mark-five | echo mark-six`;
      const second = await codex.run(plan, { goesOn: true });
      expect(lastText(second)).toBe('Done: mark-three, mark-four, mark-five, mark-six');
      expect((await played('/v1/responses')).numSummaries).toBeGreaterThan(0);

      const third = await codex.run('plan: echo mark-seven', { goesOn: true });
      expect(lastText(third)).toBe('Done: mark-seven');
      await played('/v1/responses');
    },
  );
});

describe('Claude Code', () => {
  const lastText = (events: readonly AgentEvent[]) => events.findLast(({ type }) => type === 'result')?.['result'];
  const compactions = (events: readonly AgentEvent[]) =>
    events.flatMap(({ subtype, compact_metadata: about }) =>
      subtype === 'compact_boundary' ? [(about as { trigger: string }).trigger] : [],
    );

  test(
    'calls tools, compacts the conversation by itself and on request, and continues',
    { timeout: TIMEOUT_MS },
    async () => {
      const claude = (agent = await openClaudeCode(FOLDER, service, { contextLength: 90_000 }));
      const first = await claude.run('plan: echo mark-one | echo mark-two');
      expect(lastText(first)).toBe('Done: mark-one, mark-two');
      expect(await played('/v1/messages')).toEqual({ numRequests: 3, numSummaries: 0 });

      const plan = `plan: ${LONG} echo mark-three | ${LONG} echo mark-four | ${LONG} echo mark-five | echo mark-six`;
      const second = await claude.run(plan, { goesOn: true });
      expect(lastText(second)).toBe('Done: mark-three, mark-four, mark-five, mark-six');
      expect(new Set(compactions(second))).toEqual(new Set(['auto']));
      expect((await played('/v1/messages')).numSummaries).toBe(compactions(second).length);

      expect(compactions(await claude.run('/compact', { goesOn: true }))).toEqual(['manual']);
      const third = await claude.run('plan: echo mark-seven', { goesOn: true });
      expect(lastText(third)).toBe('Done: mark-seven');
      await played('/v1/messages');
    },
  );
});
