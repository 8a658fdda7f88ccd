import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { join, resolve } from 'node:path';

import { decodePassResult, encodePass, FakeTinkerServer, HOSTED_LIKE, SKYRL_0_4 } from '@trainyard/tinker/testing';
import { describe, expect, it } from 'vitest';

import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';

const ROOT = resolve(import.meta.dirname, '../..');

const hasPython = await hasPythonEnvironment(ROOT, 'tinker');
if (!hasPython && process.env['CI'] !== undefined) {
  throw new Error('CI must run the SDK of the Tinker protocol: "node scripts/bootstrap.mjs --python" shows the reason');
}

interface Report {
  seen: unknown;
  output: string;
}

async function judge(request: Uint8Array): Promise<Report> {
  const script = join(import.meta.dirname, 'tinker_codec.py');
  const child = spawn(pythonEnvironment(ROOT, 'tinker').python, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(`${Buffer.from(request).toString('hex')}\n`);
  return JSON.parse(/^REPORT (.*)$/m.exec(await text(child.stdout))![1]!) as Report;
}

describe.skipIf(!hasPython)('the generated classes of the Tinker SDK', () => {
  const datums = [
    {
      tokens: Int32Array.of(1, 300, 151_935),
      inputs: { target_tokens: Int32Array.of(300, 151_935, 0), weights: Float32Array.of(0, -0.5, 0.25) },
    },
    {
      tokens: Int32Array.of(9),
      inputs: {
        target_tokens: Int32Array.of(2),
        logprobs: Float32Array.of(-1.5),
        advantages: Float32Array.of(3e-8),
      },
    },
  ];

  it.each([true, false])(
    'read our passes correctly (without gradients: %s), and we their results',
    async (isForwardOnly) => {
      const modelId = 'session:train:0';
      const request = encodePass({ modelId, seqId: 129, datums, lossName: 'importance_sampling', isForwardOnly });
      const { seen, output } = await judge(request);
      const tensor = (dtype: number, data: readonly number[]) => ({ dtype, shape: [data.length], data });
      expect(seen).toEqual({
        model_id: modelId,
        seq_id: 129,
        loss_fn: 'importance_sampling',
        forward_only: isForwardOnly,
        num_unknown_bytes: 0,
        data: [
          {
            tokens: [1, 300, 151_935],
            inputs: { target_tokens: tensor(2, [300, 151_935, 0]), weights: tensor(1, [0, -0.5, 0.25]) },
          },
          {
            tokens: [9],
            inputs: {
              target_tokens: tensor(2, [2]),
              logprobs: tensor(1, [-1.5]),
              advantages: tensor(1, [Math.fround(3e-8)]),
            },
          },
        ],
      });
      expect(decodePassResult(Buffer.from(output, 'hex'))).toEqual({
        logprobs: [Float32Array.of(-1, -2), new Float32Array(0), Float32Array.of(-3.5)],
        metrics: { 'loss:sum': 1.25, empty: 0 },
      });
    },
  );
});

interface Life {
  models: string[];
  info: string;
  forward: number[];
  backward: number[];
  step: string[];
  after: number[];
  saved: string;
  refused: { kind: string; status: number; told: string };
}

describe.skipIf(!hasPython)('the client of the Tinker SDK', () => {
  it.each([
    { dialect: SKYRL_0_4, norm: 'skyrl.ai/grad_norm' },
    { dialect: HOSTED_LIKE, norm: 'grad_norm:mean' },
  ])('trains on the fake server of $dialect.name, and recognises a refusal', async ({ dialect, norm }) => {
    const server = await FakeTinkerServer.start(dialect);
    try {
      const script = join(import.meta.dirname, 'tinker_session.py');
      const args = [script, server.url, dialect.key ?? 'tml-any'];
      const child = spawn(pythonEnvironment(ROOT, 'tinker').python, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      const life = JSON.parse(/^REPORT (.*)$/m.exec(await text(child.stdout))![1]!) as Life;
      expect(life).toMatchObject({ models: ['tiny/llama'], info: 'tiny/llama' });
      expect(life.forward).toHaveLength(4);
      expect(life.backward).toEqual(life.forward);
      expect(life.step).toContain(norm);
      const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
      expect(sum(life.after)).toBeGreaterThan(sum(life.forward));
      expect(life.saved).toMatch(/^tinker:\/\/[^/]+\/weights\/first$/);
      // An error answer, not a broken connection, which is how the SDK sees a 400 without a length.
      expect(life.refused).toMatchObject({ kind: 'BadRequestError', status: 400 });
      expect(life.refused.told).toContain('LoadWeights is not permitted with seq_id 6');
    } finally {
      await server.close();
    }
  });
});
