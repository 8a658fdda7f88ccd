import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { DEFAULT_LORA_CONFIG, openTrainer, readCheckpoint } from '@trainyard/trainer';
import { expect, it } from 'vitest';

import { ownService } from '../../scripts/own-service.ts';
import { testModel } from '../support/model.ts';
import { difference, isPytorchModel, pytorchJobs, pytorchReference, sequenceRow } from '../support/pytorch-fixture.ts';

/**
 * Optimizer steps through the API give the same policies as PyTorch's: computed once by
 * lab/pytorch/make-fixture.ts.
 */

const jobs = pytorchJobs();
const reference = pytorchReference();
const { chain } = jobs;

it.skipIf(!isPytorchModel(reference))(
  'jobs sent to the service give the same policies as torch.optim.AdamW',
  async () => {
    const { base } = testModel();
    // `fast` trains on the unchanged file, which PyTorch used.
    const service = await ownService({ environment: { TRAINYARD_MODEL: base, TRAINYARD_PRECISION: 'fast' } });
    const trainer = await openTrainer({ modelPath: base, numThreads: 1 });
    try {
      const policy = await trainer.policy(DEFAULT_LORA_CONFIG);
      const probe = async () => (await policy.forward(sequenceRow(jobs.probe))).logprobs;
      const start = difference(await probe(), reference.chain[0]!.probe);
      console.log(`step 0: |Δlogprob| mean ${start.mean.toExponential(1)}, max ${start.max.toExponential(1)}`);
      expect(start.mean).toBeLessThan(1e-3);

      const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
      const baseModel = (await client.servedModels.list()).data[0]!.id;
      const model = await client.models.register({ project: 'p', name: 'pytorch', base_model: baseModel });
      const seen = new Set<string>();
      for (const [index, name] of chain.entries()) {
        const expected = reference.chain[index + 1]!;
        const job = await client.trainingJobs.create({
          model_id: model.id,
          trajectory_groups: jobs.groups,
          experimental_config: jobs.cases[name]!,
        });
        const steps = await client.trainingJobs.gradientSteps(job.id);
        expect(steps).toHaveLength(1);
        const metrics = steps[0]!;

        readCheckpoint(newCheckpoint(service.dataDirectory, seen), policy.lora);
        const { mean, max } = difference(await probe(), expected.probe);
        const change = difference(expected.probe, reference.chain[index]!.probe).mean;
        console.log(
          [
            `step ${index + 1}, ${name}: |Δlogprob| on ${expected.probe.length} tokens mean ${mean.toExponential(1)}, max ${max.toExponential(1)}`,
            `the step changed them by ${change.toFixed(3)}`,
            `PyTorch in float32 ${expected.float32.probe.toExponential(1)}`,
            `loss ${metrics['policy_loss']!.toFixed(5)} (PyTorch ${expected.loss!.toFixed(5)})`,
            `gradient norm ${metrics['grad_norm']!.toFixed(4)} (${expected.grad_norm!.toFixed(4)})`,
          ].join('; '),
        );
        expect(expected.probe).toHaveLength(256);
        expect(change).toBeGreaterThan(0.02);
        expect(mean).toBeLessThan(1e-3);
        expect(metrics['policy_loss']).toBeCloseTo(expected.loss!, 2);
        expect(metrics['grad_norm']! / expected.grad_norm!).toBeCloseTo(1, 2);
      }
    } finally {
      trainer.close();
      await service.close();
    }
  },
  300_000,
);

/** Folder of the only new checkpoint below the data folder. */
function newCheckpoint(dataDirectory: string, seen: Set<string>): string {
  const files = readdirSync(dataDirectory, { recursive: true, encoding: 'utf8' });
  const found = files.filter((file) => file.endsWith('adapter_model.safetensors') && !seen.has(file));
  expect(found).toHaveLength(1);
  seen.add(found[0]!);
  return join(dataDirectory, dirname(found[0]!));
}
