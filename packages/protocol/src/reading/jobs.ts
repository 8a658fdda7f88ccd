import Type, { type Static } from 'typebox';
import { PageQuerySchema } from '../shape/schema.ts';

export const TrainingJobPageQuerySchema = Type.Object({
  ...PageQuerySchema.properties,
  model_id: Type.Optional(Type.String({ maxLength: 128, description: 'Only jobs of this model.' })),
  project: Type.Optional(Type.String({ maxLength: 128, description: 'Only jobs of models of this project.' })),
  status: Type.Optional(
    Type.Enum(['queued', 'running', 'succeeded', 'failed', 'cancelled'], {
      description: 'Only jobs with this status. A paused job is queued.',
    }),
  ),
  kind: Type.Optional(Type.Enum(['rl', 'sft'], { description: 'Only jobs of this kind.' })),
});
export type TrainingJobPageQuery = Static<typeof TrainingJobPageQuerySchema>;

const QueuedJobSchema = Type.Object(
  {
    id: Type.String(),
    model_id: Type.String(),
    kind: Type.Enum(['rl', 'sft']),
    status: Type.Enum(['queued', 'running']),
    is_paused: Type.Boolean(),
    num_ahead: Type.Integer({
      minimum: 0,
      description: 'Number of earlier training jobs of the service that have not ended and are not paused.',
    }),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    num_gradient_steps_done: Type.Integer({ minimum: 0 }),
    num_gradient_steps: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
      description: 'Total number of gradient steps; null before the job starts.',
    }),
  },
  { title: 'QueuedJob' },
);
export type QueuedJobObject = Static<typeof QueuedJobSchema>;

export const TrainingQueueSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(QueuedJobSchema, { description: 'In order of submission, at most 1,000.' }),
  },
  { title: 'TrainingQueue' },
);
export type TrainingQueueObject = Static<typeof TrainingQueueSchema>;
