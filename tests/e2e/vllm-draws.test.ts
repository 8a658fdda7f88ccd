import { expect, it } from 'vitest';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { type ChatBody, Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { scoredGroup } from '../support/groups.ts';
import { testModel } from '../support/model.ts';
import { openOwnVllm } from '../support/own-vllm.ts';
import { smallService } from '../support/small-service.ts';

type Outcome = 'equal' | 'probability' | 'refused';
type Mode = 'raw' | 'processed';

const REGEX = { structured_outputs: { regex: '(yes|no), (red|green|blue)' } };
const SCHEMA = { type: 'object', properties: { a: { type: 'string', maxLength: 8 } }, required: ['a'] };
const JSON_SCHEMA = { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: SCHEMA } } };

/**
 * Ways to sample, with their training by a job over a vLLM server: like one over the local engine; by the
 * probability of each token only, if the server reports it and the kept set is too long to be listed; or not
 * at all.
 */
const WAYS: readonly [way: string, fields: Partial<ChatBody>, raw: Outcome, processed: Outcome][] = [
  ['plainly', {}, 'equal', 'equal'],
  ['at a temperature', { temperature: 0.7 }, 'equal', 'equal'],
  ['hot', { temperature: 1.4 }, 'equal', 'equal'],
  [
    'with penalties and a bias',
    { repetition_penalty: 1.3, presence_penalty: 0.5, frequency_penalty: 0.3, logit_bias: { '198': 4, '28': -5 } },
    'equal',
    'equal',
  ],
  ['with an early end masked', { min_tokens: 8 }, 'equal', 'equal'],
  ['from allowed ids', { allowed_token_ids: [28, 30, 260, 314], temperature: 0.8 }, 'equal', 'equal'],
  ['under a regex', { ...REGEX }, 'equal', 'equal'],
  ['under a regex, cooler', { ...REGEX, temperature: 0.7 }, 'equal', 'equal'],
  ['under a JSON schema', JSON_SCHEMA as Partial<ChatBody>, 'equal', 'equal'],
  [
    'under a JSON schema, with penalties',
    { ...JSON_SCHEMA, presence_penalty: 0.5 } as Partial<ChatBody>,
    'equal',
    'equal',
  ],
  ['with top_k', { top_k: 20 }, 'equal', 'equal'],
  ['with top_k, min_p and a temperature', { top_k: 20, min_p: 0.05, temperature: 1.2 }, 'equal', 'equal'],
  ['with top_p', { top_p: 0.2 }, 'equal', 'equal'],
  [
    'with top_p, at a higher temperature than the list covers',
    { top_p: 0.9, temperature: 1.5 },
    'refused',
    'probability',
  ],
];

const CONFIG = { learning_rate: 1e-3 };

async function open(service: OwnService, name: string) {
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  const base = (await client.servedModels.list()).data[0]!.id;
  const register = (model: string) => client.models.register({ project: 'p', name: model, base_model: base });
  const { name: sampler } = await register(`sampler-${name}`);
  async function train(model: string, group: WireTrajectoryGroup) {
    const { id } = await register(model);
    const created = await client.trainingJobs.create({
      model_id: id,
      trajectory_groups: [group],
      experimental_config: CONFIG,
    });
    const [metrics = {}] = (await client.trainingJobs.gradientSteps(created.id)) as Record<string, number>[];
    return { metrics, job: await client.trainingJobs.retrieve(created.id) };
  }
  return { client, sampler, train };
}

function tokensOf({ trajectories }: WireTrajectoryGroup): unknown[] {
  return trajectories.map(({ messages_and_choices: items = [] }) =>
    items.flatMap((item) => (item as { token_ids?: number[] }).token_ids ?? []),
  );
}

it.each(['raw', 'processed'] as const)(
  'rollouts of a vLLM server with %s log-probabilities are trained like those of the local engine, however sampled',
  async (mode: Mode) => {
    const environment = { TRAINYARD_PRECISION: 'strict', TRAINYARD_LOGPROBS_MODE: `${mode}_logprobs` };
    await using vllm = await openOwnVllm(testModel().small, { logprobsMode: mode, maxLogprobs: 200 });
    const own = await smallService({ environment });
    const over = await smallService({ environment: { ...environment, TRAINYARD_VLLM: vllm.url } });
    try {
      const [here, there] = await Promise.all([open(own, 'own'), open(over, 'vllm')]);
      for (const [index, [way, fields, raw, processed]] of WAYS.entries()) {
        const options = { fields, maxTokens: 12, seed: 100 * index };
        const [expected, group] = await Promise.all(
          [here, there].map(({ client, sampler }) => scoredGroup(client, sampler, options)),
        );
        expect(tokensOf(group!), way).toEqual(tokensOf(expected!));
        const name = `way-${index}`;
        const [first, second] = await Promise.all([here.train(name, expected!), there.train(name, group!)]);
        const numbers = ['policy_loss', 'grad_norm', 'entropy', 'ratio_mean', 'logprob_gap_max'] as const;
        const shown = numbers.map((key) => `${key} ${first.metrics[key]} ${second.metrics[key]}`);
        console.log(`${mode}, ${way}: ${shown.join(', ')}`);
        const { counts } = second.job as { counts: Record<string, unknown> };
        const outcome = mode === 'raw' ? raw : processed;
        expect(counts['unreplayed_choices'], way).toEqual({});
        expect(counts['refused_choices'], way).toEqual(outcome === 'refused' ? { undetermined: 4 } : {});
        if (outcome === 'refused') {
          expect((second.job as { warnings: { code: string }[] }).warnings.map(({ code }) => code)).toContain(
            'sampling_refused',
          );
          continue;
        }
        if (outcome === 'probability') continue;
        for (const key of numbers)
          expect(Math.abs(first.metrics[key]! - second.metrics[key]!), `${way}: ${key}`).toBeLessThan(2e-4);
        expect(second.metrics['logprob_gap_max'], way).toBeLessThan(1e-3);
      }
    } finally {
      await Promise.all([own.close(), over.close()]);
    }
  },
  1_800_000,
);
