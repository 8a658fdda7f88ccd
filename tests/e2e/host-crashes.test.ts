import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ListPage, SeriesListObject, TrajectoryObject, TrajectoryTokens } from '@trainyard/protocol';
import { Trainyard, TrainyardApiError } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { errorOfCutStream, longStream } from '../support/cut-stream.ts';
import { tenLongGroups } from '../support/groups.ts';
import { hostOf } from '../support/processes.ts';
import { smallService } from '../support/small-service.ts';

let service: OwnService;
let client: Trainyard;
let base: string;
let modelId: string;

beforeAll(async () => {
  service = await smallService();
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  base = (await client.servedModels.list()).data[0]!.id;
  modelId = (await client.models.register({ project: 'crashes', name: 'survivor', base_model: base })).id;
});

afterAll(async () => {
  await service.close();
});

async function untilHealthy(): Promise<void> {
  while (!(await client.service.isHealthy())) await new Promise((resolve) => setTimeout(resolve, 50));
}

describe('a killed engine host', () => {
  it('ends the request in flight with one clear error and recovers by itself', async () => {
    const greedy = {
      model: base,
      messages: [{ role: 'user', content: 'What is the capital of France?' }],
      temperature: 0,
      max_tokens: 12,
    };
    const before = await client.chat.completions.create(greedy);
    expect(before.choices[0]!.message.content).not.toBe('');
    const inFlight = client.chat.completions.create({
      model: base,
      messages: [{ role: 'user', content: 'Count.' }],
      max_tokens: 2_000,
      ignore_eos: true,
    });
    const outcome = inFlight.then(
      () => null,
      (error: unknown) => error,
    );
    // Sent later, it shows that the first is in progress.
    const chunks = await client.chat.completions.create({
      model: base,
      messages: [{ role: 'user', content: 'Count.' }],
      max_tokens: 2_000,
      ignore_eos: true,
      stream: true,
    });
    for (let numChunks = 0; numChunks < 5; numChunks++) await chunks.next();
    process.kill(hostOf(service.pid, 'engine'), 'SIGKILL');
    const error = await outcome;
    await chunks.return(undefined);
    expect(error).toBeInstanceOf(TrainyardApiError);
    expect(error).toMatchObject({ status: 503, code: 'engine.host_lost' });
    expect((error as Error).message).toContain('SIGKILL');
    // A request made while the host is coming back waits for it.
    const answer = await client.chat.completions.create(greedy);
    expect(answer.choices[0]!.message.content).toBe(before.choices[0]!.message.content);
    expect(await client.service.isHealthy()).toBe(true);
  });

  it('ends a stream with an error event and [DONE]', async () => {
    const response = await longStream(service, base);
    process.kill(hostOf(service.pid, 'engine'), 'SIGKILL');
    expect(await errorOfCutStream(response)).toMatchObject({ code: 'engine.host_lost', type: 'server_error' });
    await untilHealthy();
  });
});

describe('a killed trainer host', () => {
  it('continues after its last gradient step: the job succeeds with the same steps and the same weights', async () => {
    const groups = await tenLongGroups(client, 'survivor');
    // Two gradient steps of several rows: the first kill is before or after the end of the first row, the
    // second in the second step.
    const config = { learning_rate: 1e-4, gradient_steps: 2, packed_sequence_length: 1024 };
    const undisturbed = await client.trainingJobs.create({
      model_id: modelId,
      trajectory_groups: groups,
      experimental_config: config,
    });
    const expected = await client.trainingJobs.gradientSteps(undisturbed.id);
    expect(expected).toHaveLength(2);
    for (const metrics of expected) expect(metrics['num_rows']).toBeGreaterThan(1);
    const digestOf = async (name: string) =>
      (await client.chat.completions.create({ model: name, messages: [{ role: 'user', content: 'x' }], max_tokens: 1 }))
        .system_fingerprint;

    // The same job with a second fresh model, and its host killed twice.
    const twin = await client.models.register({ project: 'crashes', name: 'twin', base_model: base });
    const job = await client.trainingJobs.create({
      model_id: twin.id,
      trajectory_groups: groups,
      experimental_config: config,
    });
    const seen: string[] = [];
    let numKills = 0;
    for await (const event of client.trainingJobs.watch(job.id)) {
      if (event.type !== 'warning') seen.push(event.type);
      if ((event.type === 'training_started' || event.type === 'gradient_step') && numKills < 2) {
        numKills += 1;
        process.kill(hostOf(service.pid, 'trainer'), 'SIGKILL');
        await untilHealthy();
      }
    }
    expect(seen).toEqual(['training_started', ...expected.map(() => 'gradient_step'), 'training_ended']);
    expect(await digestOf('twin:step1')).toBe(await digestOf('survivor:step1'));

    // Its run has each gradient step once, and each trained trajectory its tokens once.
    const read = async <Answer>(path: string): Promise<Answer> => {
      const headers = { authorization: `Bearer ${service.apiKey}` };
      return (await (await fetch(`${service.url}/preview/${path}`, { headers })).json()) as Answer;
    };
    const seriesPath = (id: string) => `models/${id}/series?name=train/grad_norm&axis=gradient_step`;
    const [of, ofTwin] = [
      await read<SeriesListObject>(seriesPath(modelId)),
      await read<SeriesListObject>(seriesPath(twin.id)),
    ];
    expect(ofTwin.data[0]?.count).toEqual(expected.map(() => 1));
    expect(ofTwin.data[0]?.mean).toEqual(of.data[0]?.mean);
    const trained = await read<ListPage<TrajectoryObject>>(
      `models/${twin.id}/trajectories?job_id=${job.id}&outcome=trained&limit=100`,
    );
    expect(trained.data.length).toBeGreaterThan(0);
    for (const { id } of trained.data) {
      const { sequences } = await read<TrajectoryTokens>(`trajectories/${id}/tokens`);
      expect(sequences.map(({ is_trained: isTrained }) => isTrained.some(Boolean))).toEqual([true]);
    }
  }, 240_000);
});
