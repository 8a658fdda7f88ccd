/**
 * Learning curves: each task with several seeds, every curve of a task in one plot, and the numbers as rows of a table.
 *
 *   npm run lab -- learn                                               all tasks, seeds 1, 2 and 3 (about 40 minutes on two cores)
 *   npm run lab -- learn --tasks yes-no-maybe --seeds 1 --out /tmp
 *   npm run lab -- learn --tasks extraction --steps 6 --out /tmp                                at most six steps
 *   npm run lab -- learn --tasks extraction --settings '{"step_per_row": true}' --out /tmp      with other training settings
 *   npm run lab -- learn --tasks extraction-after-sft --lessons '{"experimental_config": {"epochs": 6}}' --out /tmp
 *   npm run lab -- learn --model FILE --chat-template FILE --tasks concise-after-sft --out /tmp     with another base model
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';

import { type Learnt, learn } from '../demo/learn.ts';
import { rewardPlot } from '../demo/reward-plot.ts';
import type { DemoTask } from '../demo/task.ts';
import { ownService } from '../../scripts/own-service.ts';
import { COURSES, type LessonSettings, teach } from './courses.ts';

const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: COURSES.map(({ name }) => name).join(',') },
    seeds: { type: 'string', default: '1,2,3' },
    steps: { type: 'string', default: '1000' },
    settings: { type: 'string', default: '{}' },
    lessons: { type: 'string', default: '{}' },
    model: { type: 'string' },
    'chat-template': { type: 'string' },
    out: { type: 'string', default: 'docs/learning' },
  },
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const names = values.tasks.split(',');
const unknown = names.filter((name) => COURSES.every((course) => course.name !== name));
const seeds = values.seeds.split(',').map(Number);
const maxSteps = Number(values.steps);
if (unknown.length > 0 || ![maxSteps, ...seeds].every(Number.isSafeInteger) || maxSteps < 1) {
  console.error(
    `unknown: ${unknown.join(', ') || `${values.seeds}, ${values.steps}`}; tasks are ${COURSES.map(({ name }) => name).join(', ')}`,
  );
  process.exit(2);
}
const settings = JSON.parse(values.settings) as DemoTask['settings'];
const lessonSettings = JSON.parse(values.lessons) as LessonSettings;
const { model: modelFile, 'chat-template': chatTemplate } = values;
const modelId = modelFile === undefined ? null : basename(modelFile, '.gguf');
const environment: Record<string, string> = { TRAINYARD_PRECISION: process.env['TRAINYARD_PRECISION'] ?? 'strict' };
if (modelFile !== undefined) environment['TRAINYARD_MODEL'] = resolve(modelFile);
if (modelId !== null) environment['TRAINYARD_MODEL_ID'] = modelId;
if (chatTemplate !== undefined) environment['TRAINYARD_CHAT_TEMPLATE'] = resolve(chatTemplate);
mkdirSync(values.out, { recursive: true });

const rows: string[] = [];
for (const { name, task, numSteps, lessons } of COURSES.filter((course) => names.includes(course.name))) {
  const runs: Learnt[] = [];
  for (const seed of seeds) {
    const service = await ownService({ environment });
    try {
      const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
      const learnt = await learn({ ...task, settings: { ...task.settings, ...settings } }, client, {
        numSteps: Math.min(numSteps, maxSteps),
        seed,
        ...(lessons === undefined
          ? {}
          : { prepare: (model) => teach(client, model, { name, lessons }, lessonSettings) }),
      });
      runs.push(learnt);
      rows.push(rowOf(name, seed, learnt));
      console.log(rows.at(-1));
    } finally {
      await service.close();
    }
  }
  const title = `${name}${modelId === null ? '' : ` (${modelId})`}: mean reward by step, seeds ${seeds.join(', ')}`;
  writeFileSync(
    join(values.out, `${name}.svg`),
    rewardPlot(
      runs.map(({ rewards }) => rewards),
      title,
    ),
  );
}
console.log(
  `\n| task | seed | steps | before → after | all rollouts | largest gap | time |\n|---|---|---|---|---|---|---|\n${rows.join('\n')}`,
);

/**
 * Mean rewards: of the first and the last round, and over the rollouts of all trained steps. The gap is the
 * mean |Δlogprob| between sampler and trainer before the first update of a job; the largest of all jobs.
 */
function rowOf(name: string, seed: number, { rewards, gaps, seconds }: Learnt): string {
  const [before, after] = [rewards[0]!, rewards.at(-1)!].map((reward) => reward.toFixed(3));
  const trained = rewards.slice(0, -1);
  const all = (trained.reduce((sum, reward) => sum + reward, 0) / trained.length).toFixed(3);
  const gap = gaps.length === 0 ? '–' : Math.max(...gaps).toExponential(1);
  return `| ${name} | ${seed} | ${rewards.length - 1} | ${before} → ${after} | ${all} | ${gap} | ${Math.round(seconds)} s |`;
}
