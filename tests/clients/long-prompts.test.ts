import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TIMEOUT_MS = 300_000;

const hasPython = await hasPythonEnvironment(ROOT, 'clients');
if (!hasPython && process.env['CI'] !== undefined) {
  throw new Error('CI must run LiteLLM and LangChain: "node scripts/bootstrap.mjs --python" shows the reason');
}

describe.skipIf(!hasPython)('the libraries above the openai client', () => {
  let service: ScriptedServiceProcess;
  let report: Record<string, string[]>;

  beforeAll(async () => {
    service = await scriptedService();
    const { stdout } = await promisify(execFile)(
      pythonEnvironment(ROOT, 'clients').python,
      [join(import.meta.dirname, 'long_prompts.py'), service.url, service.apiKey, service.model],
      { timeout: TIMEOUT_MS, maxBuffer: 64e6 },
    );
    report = JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!) as Record<string, string[]>;
  }, TIMEOUT_MS);
  afterAll(() => service.close());

  it.each(['litellm', 'litellm_openai', 'litellm_stream', 'litellm_text'])(
    '%s recognises a prompt that is too long by its own error',
    (name) => {
      expect(report[name]).toContain('ContextWindowExceededError');
    },
  );

  it.each(['langchain', 'langchain_stream'])('%s recognises a prompt that is too long by its own error', (name) => {
    expect(report[name]).toContain('ContextOverflowError');
  });

  it.each(['litellm_value', 'openai_value'])('%s: a bad value is a bad request', (name) => {
    expect(report[name]).toContain('BadRequestError');
  });
});
