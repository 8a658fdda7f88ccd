import type { CreateSftTrainingJobRequest, Trainyard } from '@trainyard/sdk';

import type { DemoTask } from '../demo/task.ts';
import { concise, CONCISE_LESSONS } from '../demo/tasks/concise.ts';
import { extraction, EXTRACTION_LESSONS } from '../demo/tasks/extraction.ts';
import { toolUse } from '../demo/tasks/tool-use.ts';
import { YES_NO_MAYBE_LESSONS, yesNoMaybe } from '../demo/tasks/yes-no-maybe.ts';

/** A task with its number of steps, and the lessons before them. */
export interface Course {
  readonly name: string;
  readonly task: DemoTask;
  readonly numSteps: number;
  readonly lessons?: Lessons;
}

export type LessonSettings = Pick<CreateSftTrainingJobRequest, 'config' | 'experimental_config'>;

/** A supervised job before the first rollouts. */
interface Lessons {
  readonly examples: readonly { readonly prompt: string; readonly reply: string }[];
  readonly settings: LessonSettings;
}

export const COURSES: readonly Course[] = [
  { name: 'yes-no-maybe', task: yesNoMaybe, numSteps: 18 },
  {
    name: 'yes-no-maybe-after-sft',
    task: yesNoMaybe,
    numSteps: 8,
    lessons: {
      examples: YES_NO_MAYBE_LESSONS,
      settings: { config: { batch_size: 6, learning_rate: 1e-3 }, experimental_config: { epochs: 4 } },
    },
  },
  { name: 'extraction', task: extraction, numSteps: 12 },
  { name: 'tool-use', task: toolUse, numSteps: 10 },
  {
    name: 'extraction-after-sft',
    task: extraction,
    numSteps: 8,
    // People who are not in the task: the examples teach the format, rewards the rest.
    lessons: { examples: EXTRACTION_LESSONS, settings: { config: { batch_size: 4, learning_rate: 2e-4 } } },
  },
  {
    name: 'concise-after-sft',
    task: concise,
    numSteps: 10,
    lessons: {
      examples: CONCISE_LESSONS,
      settings: { config: { batch_size: 4, learning_rate: 'auto' }, experimental_config: { epochs: 6 } },
    },
  },
];

/**
 * Trains a model on the lessons of a course.
 * @param changed settings that replace those of the course
 */
export async function teach(
  client: Trainyard,
  model: { readonly id: string; readonly entity: string },
  { name, lessons }: { readonly name: string; readonly lessons: Lessons },
  changed: LessonSettings = {},
): Promise<void> {
  const { examples, settings } = lessons;
  const artifact = await client.artifacts.upload(
    { entity: model.entity, project: 'demo', name: `${name}-lessons` },
    examples.map(({ prompt, reply }) => ({
      messages: [
        { role: 'user', content: prompt },
        { role: 'assistant', content: reply },
      ],
    })),
  );
  const job = await client.sftJobs.create({
    model_id: model.id,
    training_data_url: artifact.url,
    config: { ...settings.config, ...changed.config },
    experimental_config: { ...settings.experimental_config, ...changed.experimental_config },
  });
  const steps = await client.trainingJobs.gradientSteps(job.id);
  const losses = steps.map(({ loss }) => loss?.toFixed(3)).join(', ');
  console.log(`supervised job: ${steps.length} steps on ${examples.length} lines, loss ${losses}\n`);
}
