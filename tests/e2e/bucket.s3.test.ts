/** A service with blobs in a bucket: a machine that has only the database serves its trained model. */
import assert from 'node:assert/strict';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { CREDENTIALS, REGION, S3Server } from '@trainyard/store/testing';
import { scoredGroup, tenLongGroups } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
let server: S3Server;
beforeAll(async () => {
  const program = process.env['TRAINYARD_TEST_S3_SERVER'];
  assert(program !== undefined, 'the project `s3` starts the server');
  server = await S3Server.start(program);
});
afterAll(() => server.stop());

test("jobs are trained, checkpoints served and bodies read, even after the machine's cache is lost", async () => {
  const environment = {
    TRAINYARD_BUCKET: `${await server.createBucket()}/yard`,
    TRAINYARD_BUCKET_REGION: REGION,
    AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
  };
  const first = await smallService({ environment });
  const { dataDirectory, apiKey } = first;
  try {
    const client = new Trainyard({ baseUrl: first.url, apiKey });
    const { id, entity } = await client.models.register({ project: 'bucket', name: 'm', base_model: BASE });
    const name = `${entity}/bucket/m`;
    // Small bodies are parsed in the event loop, large ones in a thread that opens the bucket itself.
    for (const groups of [[await scoredGroup(client, name)], await tenLongGroups(client, name)]) {
      const job = await client.trainingJobs.create({
        model_id: id,
        trajectory_groups: groups,
        experimental_config: { learning_rate: 1e-3 },
      });
      expect((await client.trainingJobs.gradientSteps(job.id)).length).toBeGreaterThan(0);
    }
    const ask = (service: { url: string }, seed: number) =>
      new Trainyard({ baseUrl: service.url, apiKey }).chat.completions.create({
        model: name,
        messages: [{ role: 'user', content: 'Say something.' }],
        max_tokens: 12,
        seed,
        logprobs: true,
      });
    const before = await ask(first, 7);
    expect(existsSync(join(dataDirectory, 'blobs'))).toBe(false);
    await first.stop();
    rmSync(join(dataDirectory, 'bucket-cache'), { recursive: true });
    const second = await smallService({
      dataDirectory,
      environment: { ...environment, TRAINYARD_API_KEY: apiKey },
    });
    try {
      const after = await ask(second, 7);
      expect(after.choices[0]!.message).toMatchObject({ content: before.choices[0]!.message.content });
      expect(after.choices[0]!.logprobs).toEqual(before.choices[0]!.logprobs);
      expect(second.output()).not.toContain(CREDENTIALS.secretAccessKey);
    } finally {
      await second.stop();
    }
  } finally {
    await first.close();
  }
});
