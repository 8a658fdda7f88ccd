import Type, { type Static } from 'typebox';
import { LoraObjectSchema } from '../training/lora.ts';
import { listPageSchema, nullable, PageQuerySchema } from '../shape/schema.ts';

/** Trained models, for display. */

export const ModelPageQuerySchema = Type.Object({
  ...PageQuerySchema.properties,
  project: Type.Optional(Type.String({ maxLength: 128, description: 'Only models of this project.' })),
});
export type ModelPageQuery = Static<typeof ModelPageQuerySchema>;

const ModelDetailsSchema = Type.Object(
  {
    id: Type.String(),
    entity: Type.String(),
    project: Type.String(),
    name: Type.String(),
    base_model: Type.String(),
    is_served: Type.Boolean({ description: 'Whether its base model is served here now.' }),
    run_id: Type.String({ description: 'Names its metrics; they go with the model.' }),
    tracked_run: nullable(
      Type.Object({
        tracker: Type.String({ description: 'E.g. `mlflow`.' }),
        id: Type.String(),
        url: nullable(Type.String(), { description: 'Where to look at it.' }),
      }),
      { description: 'The run as a tracker outside has it; null without one, and before it has it.' },
    ),
    lora: LoraObjectSchema,
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    latest_step: nullable(Type.Integer({ minimum: 0 }), {
      description: 'Step that the bare name stands for; null when all its checkpoints were deleted.',
    }),
    num_checkpoints: Type.Integer({ minimum: 0, description: 'That are there, step 0 included.' }),
    num_gradient_steps: Type.Integer({ minimum: 0, description: 'Over all its jobs.' }),
    metrics: Type.Unsafe<Record<string, number>>({
      type: 'object',
      additionalProperties: { type: 'number' },
      description: 'Those of the latest checkpoint.',
    }),
    reward: nullable(
      Type.Object({
        step: Type.Integer({ minimum: 0, description: 'Step that the rollouts were drawn from.' }),
        value: Type.Number(),
      }),
      { description: 'Latest mean reward of training rollouts; null before the first.' },
    ),
    best: nullable(
      Type.Object({
        step: Type.Integer({ minimum: 0 }),
        metric: Type.String({ description: '`val/reward` if any kept checkpoint has it, else `train/reward`.' }),
        value: Type.Number(),
      }),
      {
        description: 'Kept checkpoint with the highest reward, which `NAME:best` names; null before the first reward.',
      },
    ),
    live_jobs: Type.Object(
      {
        queued: Type.Integer({ minimum: 0 }),
        running: Type.Integer({ minimum: 0 }),
        paused: Type.Integer({ minimum: 0 }),
      },
      { description: 'Training jobs of it that have not ended.' },
    ),
  },
  { title: 'ModelDetails' },
);
export { ModelDetailsSchema };
export type ModelDetailsObject = Static<typeof ModelDetailsSchema>;
export const ModelDetailsPageSchema = listPageSchema('ModelDetailsPage', ModelDetailsSchema);
