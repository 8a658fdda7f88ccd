/**
 * Unmodified Python frameworks for agents with the Responses API: their second turns, with default settings
 * and with the previous answer's id.
 */
import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { commentedStreams } from '../support/commented-streams.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TIMEOUT_MS = 300_000;

const hasPython = await hasPythonEnvironment(ROOT, 'agents');
if (!hasPython && process.env['CI'] !== undefined) {
  throw new Error('CI must run the Python clients: "node scripts/bootstrap.mjs --python" shows the reason');
}

/** A request of a framework: its references to earlier answers, and the kinds of its items. */
const request = (items: readonly string[], { previous = false, stream = false } = {}) => ({
  items,
  previous,
  store: null,
  stream,
});
/** Items of a turn with two calls, as listed by the service. */
const CALLED = [
  'reasoning',
  'message',
  'function_call',
  'function_call',
  'function_call_output',
  'function_call_output',
];
const BOTH_TURNS = [
  'message',
  ...CALLED,
  'reasoning',
  'message',
  'message',
  'reasoning',
  'message',
  'function_call',
  'function_call_output',
];
const FIRST_ANSWER = 'sun in Zürich, sun in Rome';
const SECOND_ANSWER = 'sun in Rome';

describe.skipIf(!hasPython)('the unmodified framework for agents', () => {
  let service: ScriptedServiceProcess;
  let commented: Awaited<ReturnType<typeof commentedStreams>>;
  beforeAll(async () => {
    service = await scriptedService();
    commented = await commentedStreams(service.url);
  }, TIMEOUT_MS);
  afterAll(async () => {
    commented.close();
    await service.close();
  });

  async function run(framework: string): Promise<unknown> {
    const { stdout } = await promisify(execFile)(
      pythonEnvironment(ROOT, 'agents').python,
      [join(import.meta.dirname, 'agents_client.py'), framework, commented.url, service.apiKey, service.model],
      { timeout: TIMEOUT_MS },
    );
    return JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!);
  }

  it(
    'openai-agents',
    async () => {
      const spoken = ['user', ...CALLED];
      const again = [...spoken, 'reasoning', 'message', 'user'];
      const called = [...again, 'reasoning', 'message', 'function_call', 'function_call_output'];
      expect(await run('openai-agents')).toEqual({
        first: [FIRST_ANSWER, [request(['user']), request(spoken)]],
        second: [SECOND_ANSWER, [request(again), request(called)], BOTH_TURNS],
        cached: true,
        chained: [
          SECOND_ANSWER,
          [request(['user'], { previous: true }), request(['function_call_output'], { previous: true })],
          BOTH_TURNS,
        ],
        same_prompts: true,
        automatic: [
          FIRST_ANSWER,
          [request(['user']), request(['function_call_output', 'function_call_output'], { previous: true })],
          BOTH_TURNS.slice(0, 7),
        ],
        streamed: [
          SECOND_ANSWER,
          [request(again, { stream: true }), request(called, { stream: true })],
          [
            'reasoning_item_created',
            'message_output_created',
            'tool_called',
            'tool_output',
            'reasoning_item_created',
            'message_output_created',
          ],
          'I look.\nsun in Rome',
        ],
        asked: ['Rome', 'Rome', 'Rome', 'Rome', 'Rome', 'Zürich', 'Zürich'],
      });
    },
    TIMEOUT_MS,
  );

  it(
    'pydantic-ai',
    async () => {
      const spoken = ['user', 'reasoning', 'assistant', ...CALLED.slice(2)];
      const again = [...spoken, 'reasoning', 'assistant', 'user'];
      const called = [...again, 'reasoning', 'assistant', 'function_call', 'function_call_output'];
      const quietly = [...again, 'function_call', 'function_call_output'];
      expect(await run('pydantic-ai')).toEqual({
        first: [FIRST_ANSWER, [request(['user']), request(spoken)]],
        second: [SECOND_ANSWER, [request(again), request(called)], BOTH_TURNS],
        cached: true,
        chained: [SECOND_ANSWER, [request(again), request(['function_call_output'], { previous: true })], BOTH_TURNS],
        same_prompts: true,
        streamed: [
          SECOND_ANSWER,
          [request(again, { stream: true }), request(quietly, { stream: true })],
          SECOND_ANSWER,
          true,
        ],
        asked: ['Rome', 'Rome', 'Rome', 'Rome', 'Zürich'],
      });
    },
    TIMEOUT_MS,
  );
});
