import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TIMEOUT_MS = 300_000;

interface Report {
  openai: string;
  run_tools: unknown;
  stream_calls: { events: string[] };
  stream_reasoning: unknown;
  parse: unknown;
  errors: unknown;
  abort: number;
  cancel: string;
  limits: { refused: unknown; wait_ms: number; went_through: boolean };
  sample: { ship: { kind: string; name: string; year: number; ports: string[] } };
}

const hasPython = await hasPythonEnvironment(ROOT, 'art');
if (!hasPython && process.env['CI'] !== undefined) {
  throw new Error('CI must run the Python client: "node scripts/bootstrap.mjs --python" shows the reason');
}

describe.skipIf(!hasPython)('the unmodified openai client (Python)', () => {
  let scripted: ScriptedServiceProcess;
  let real: OwnService;
  let report: Report;
  let generatedTokens: number;

  beforeAll(async () => {
    [scripted, real] = await Promise.all([scriptedService(), ownService()]);
    const admin = new Trainyard({ baseUrl: real.url, apiKey: real.apiKey });
    const limits = { requests_per_minute: 20 };
    const { secret } = await admin.keys.create({ name: 'limited', scopes: ['inference'], limits });
    const { stdout } = await promisify(execFile)(
      pythonEnvironment(ROOT).python,
      [
        join(import.meta.dirname, 'openai_client.py'),
        scripted.url,
        scripted.apiKey,
        scripted.model,
        real.url,
        real.apiKey,
        'HuggingFaceTB/SmolLM2-135M-Instruct',
        secret ?? '',
      ],
      { timeout: TIMEOUT_MS, maxBuffer: 64e6 },
    );
    report = JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!) as Report;
    generatedTokens = await scripted.settled();
  }, TIMEOUT_MS);
  afterAll(async () => {
    await Promise.all([scripted.close(), real.close()]);
  });

  it('calls tools until the model answers, with arguments read by pydantic', () => {
    expect(report.run_tools).toEqual({
      asked: ['Zürich', 'Rome'],
      turns: ['calls', 'answers'],
      reasoning: ['I must look.', 'I was told.'],
      answer: 'sun in Zürich, sun in Rome',
    });
  });

  it('assembles a stream of calls, with usage', () => {
    expect(report.stream_calls).toMatchObject({
      arguments: ['Zürich', 'Rome'],
      finish_reason: 'tool_calls',
      content: expect.stringMatching(/^I look\.\s*$/),
      total: 0,
      reasoning_tokens: 'I must look.'.length,
    });
    const { events } = report.stream_calls;
    expect(events.indexOf('content.delta')).toBeLessThan(events.indexOf('tool_calls.function.arguments.delta'));
  });

  it('gives reasoning next to content in a stream', () => {
    expect(report.stream_reasoning).toEqual({ reasoning: 'Someone greets me.', content: 'Hello to you.' });
  });

  it('parses an object after reasoning by its pydantic model, whole and streamed', () => {
    const parsed = { city: 'Zürich', degrees: 21 };
    expect(report.parse).toEqual({ parsed, streamed: parsed, reasoning: 'An object.' });
  });

  it('raises its own errors, with status, code and field', () => {
    expect(report.errors).toEqual([
      ['NotFoundError', 404, 'request.unknown_model', 'model', true],
      ['BadRequestError', 400, 'request.invalid', 'top_p', true],
      ['BadRequestError', 400, expect.any(String), 'n', true],
      ['BadRequestError', 400, 'context_length_exceeded', 'input_tokens', true],
      ['AuthenticationError', 401, 'request.unauthenticated', null, true],
    ]);
  });

  it('raises RateLimitError above the limit of its key, and succeeds after the requested wait', () => {
    expect(report.limits).toMatchObject({
      refused: [429, 'rate_limit_exceeded', 'rate_limit_error', '0'],
      went_through: true,
    });
    expect(report.limits.wait_ms).toBeLessThanOrEqual(3_000);
  });

  it('ends requests when it disconnects', () => {
    expect([report.abort, report.cancel]).toEqual([4, 'cancelled']);
    console.log(
      `openai ${report.openai}: ${generatedTokens} tokens generated in all, of 16,000 in the two abandoned ones`,
    );
    expect(generatedTokens).toBeLessThan(9000);
  });

  it('samples, forces tools and fills a schema on the real model', () => {
    const { ship, ...sample } = report.sample;
    expect(sample).toMatchObject({
      is_streamed_alike: true,
      ends_alike: true,
      usage_difference: 0,
      finished_choices: [0, 1, 2],
      num_entries_missing: 0,
      num_tops: [2],
      largest_logprob: expect.toSatisfy((value: number) => value <= 0),
      num_different: expect.toSatisfy((value: number) => value > 1),
      called: expect.arrayContaining(['weather']),
      arguments: expect.arrayContaining(['str']),
    });
    console.log(JSON.stringify(ship));
    expect(['ferry', 'tanker', 'tug']).toContain(ship.kind);
    expect(ship.name.length).toBeLessThanOrEqual(12);
    expect(ship.year).toSatisfy((year: number) => year >= 1900 && year <= 2025);
    expect(ship.ports.length).toBeGreaterThan(0);
  });
});
