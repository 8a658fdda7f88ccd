import type { Trainyard } from '@trainyard/sdk';

import type { DemoTask } from '../demo/task.ts';
import { extraction, EXTRACTION_LESSONS } from '../demo/tasks/extraction.ts';
import { toolUse } from '../demo/tasks/tool-use.ts';
import { yesNoMaybe } from '../demo/tasks/yes-no-maybe.ts';

/** A task, for how long, and what comes before it. */
export interface Course {
  readonly name: string;
  readonly task: DemoTask;
  readonly numSteps: number;
  readonly prepare?: (client: Trainyard, model: { id: string; entity: string }) => Promise<void>;
}

export const COURSES: readonly Course[] = [
  { name: 'yes-no-maybe', task: yesNoMaybe, numSteps: 18 },
  { name: 'extraction', task: extraction, numSteps: 12 },
  { name: 'tool-use', task: toolUse, numSteps: 10 },
  { name: 'extraction-after-sft', task: extraction, numSteps: 8, prepare: teachByExample },
];

/** A supervised job on other people than those of the task: the format comes from examples, the rest from rewards. */
async function teachByExample(client: Trainyard, model: { id: string; entity: string }): Promise<void> {
  const artifact = await client.uploadArtifact(
    { entity: model.entity, project: 'demo', name: 'extraction-lessons' },
    EXTRACTION_LESSONS.map(({ prompt, reply }) => ({
      messages: [
        { role: 'user', content: prompt },
        { role: 'assistant', content: reply },
      ],
    })),
  );
  const job = await client.createSftTrainingJob(model.id, artifact.url, { batch_size: 4, learning_rate: 2e-4 });
  const steps = await client.waitForTraining(job.id);
  const losses = steps.map(({ loss }) => loss?.toFixed(3)).join(', ');
  console.log(`supervised job: ${steps.length} steps, loss ${losses}\n`);
}
