import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { TrainingJobConfig } from '../../hosts/process/messages.ts';
import { rlJob } from '../../jobs/kinds/rl.ts';
import { sftJob } from '../../jobs/kinds/sft.ts';
import { jobName } from './checker.ts';
import { lessonJob, NUM_DATASETS, rolloutJob } from './datasets.ts';
import { Faults } from './faults.ts';
import { Oracle } from './oracle.ts';
import { BASE_MODEL, ServiceProcess } from './service-process.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { VirtualTime } from './virtual-time.ts';
import { WriterTurns } from './writer-turns.ts';
import { LORA } from './workload.ts';

/**
 * Runs every job of a workload on an undisturbed service and keeps the results: an oracle of the trained
 * weights.
 */
export async function learnUndisturbed(place: {
  readonly directory: string;
  readonly database: string;
}): Promise<Oracle> {
  const time = new VirtualTime();
  const faults = new Faults({ seed: 'undisturbed', time, kill: () => undefined });
  faults.isOn = false;
  const log = (line: string) => console.error(line);
  const dataDirectory = join(place.directory, 'data');
  mkdirSync(dataDirectory, { recursive: true });
  const oracle = await Oracle.open(join(place.directory, 'oracle'));
  time.begin();
  try {
    const world = { ...place, time, faults, turns: new WriterTurns(), networks: new Set<never>(), bucket: null, log };
    const settings = { name: 'calm', role: 'api', dataDirectory } as const;
    const service = await ServiceProcess.start(world, settings, new SimulatedProcess('calm', 0));
    const { id: entityId } = await service.store.keys.ensureEntity('local');
    const { secret } = await service.store.keys.create({ entityId, name: 'oracle', scopes: ['training'] });
    const post = async (url: string, body: object): Promise<string> => {
      const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
      const answer = await service.request('POST', `/v1/preview/${url}`, { headers, body: JSON.stringify(body) });
      if (answer.statusCode !== 200) throw new Error(answer.body);
      return answer.json<{ id: string }>().id;
    };
    const model = await post('models', { project: 'p', name: 'calm', base_model: BASE_MODEL.id, lora: LORA });
    for (let dataset = 0; dataset < NUM_DATASETS; dataset++)
      for (const kind of ['rl', 'sft'] as const) {
        const id =
          kind === 'rl'
            ? await post('training-jobs', rolloutJob(model, dataset))
            : await post('sft-training-jobs', lessonJob(model, dataset));
        const job = await service.store.jobs.get(id);
        if (job?.dataKey == null) throw new Error(`job ${id} has no data`);
        const config = job.config['resolved'] as Record<string, unknown>;
        const jobSettings: TrainingJobConfig = kind === 'rl' ? rlJob(config) : sftJob(config, job.config['source']);
        await oracle.learn({
          name: jobName({ kind, dataset }),
          blobs: service.blobs,
          dataKey: job.dataKey,
          settings: jobSettings,
        });
      }
    await service.close();
  } finally {
    time.end();
  }
  return oracle;
}
