import type { CreateSftTrainingJobRequest, Trainyard } from '@trainyard/sdk';

import type { DemoTask } from '../demo/task.ts';
import { extraction, EXTRACTION_LESSONS } from '../demo/tasks/extraction.ts';
import { toolUse } from '../demo/tasks/tool-use.ts';
import { YES_NO_MAYBE_LESSONS, yesNoMaybe } from '../demo/tasks/yes-no-maybe.ts';

/** A task with its number of steps and its preparation. */
export interface Course {
  readonly name: string;
  readonly task: DemoTask;
  readonly numSteps: number;
  readonly prepare?: (client: Trainyard, model: { id: string; entity: string }) => Promise<void>;
}

export const COURSES: readonly Course[] = [
  { name: 'yes-no-maybe', task: yesNoMaybe, numSteps: 18 },
  {
    name: 'yes-no-maybe-after-sft',
    task: yesNoMaybe,
    numSteps: 8,
    prepare: lessons('yes-no-maybe', YES_NO_MAYBE_LESSONS, {
      config: { batch_size: 6, learning_rate: 1e-3 },
      experimental_config: { epochs: 4 },
    }),
  },
  { name: 'extraction', task: extraction, numSteps: 12 },
  { name: 'tool-use', task: toolUse, numSteps: 10 },
  {
    name: 'extraction-after-sft',
    task: extraction,
    numSteps: 8,
    // People who are not in the task: the examples teach the format, rewards the rest.
    prepare: lessons('extraction', EXTRACTION_LESSONS, { config: { batch_size: 4, learning_rate: 2e-4 } }),
  },
];

interface Lesson {
  readonly prompt: string;
  readonly reply: string;
}

/** A supervised job before the first rollouts. */
function lessons(
  name: string,
  examples: readonly Lesson[],
  settings: Pick<CreateSftTrainingJobRequest, 'config' | 'experimental_config'>,
): NonNullable<Course['prepare']> {
  return async (client, model) => {
    const artifact = await client.artifacts.upload(
      { entity: model.entity, project: 'demo', name: `${name}-lessons` },
      examples.map(({ prompt, reply }) => ({
        messages: [
          { role: 'user', content: prompt },
          { role: 'assistant', content: reply },
        ],
      })),
    );
    const job = await client.sftJobs.create({ model_id: model.id, training_data_url: artifact.url, ...settings });
    const steps = await client.trainingJobs.gradientSteps(job.id);
    const losses = steps.map(({ loss }) => loss?.toFixed(3)).join(', ');
    console.log(`supervised job: ${steps.length} steps on ${examples.length} lines, loss ${losses}\n`);
  };
}
