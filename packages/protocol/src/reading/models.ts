import Type, { type Static } from 'typebox';
import { LoraObjectSchema } from '../training/lora.ts';
import { MAX_TAGS, TagSchema } from '../training/preview.ts';
import { listPageSchema, nullable, PageQuerySchema } from '../shape/schema.ts';

/** Trained models, for display. */

export const ModelPageQuerySchema = Type.Object({
  ...PageQuerySchema.properties,
  project: Type.Optional(Type.String({ maxLength: 128, description: 'Only models of this project.' })),
  tag: Type.Optional(
    Type.Union([TagSchema, Type.Array(TagSchema, { minItems: 1, maxItems: MAX_TAGS })], {
      description: 'Only models with this tag. Repeat it for models with all of several tags.',
    }),
  ),
  archived: Type.Optional(
    Type.Enum(['excluded', 'only', 'included'], { description: 'Archived models. Default `excluded`.' }),
  ),
});
export type ModelPageQuery = Static<typeof ModelPageQuerySchema>;

const ModelDetailsSchema = Type.Object(
  {
    id: Type.String(),
    entity: Type.String(),
    project: Type.String(),
    name: Type.String(),
    base_model: Type.String(),
    is_served: Type.Boolean({ description: 'True if the service currently serves its base model.' }),
    run_id: Type.String({ description: 'Id of its metrics, which are deleted with the model.' }),
    tracked_run: nullable(
      Type.Object({
        tracker: Type.String({ description: 'E.g. `mlflow`.' }),
        id: Type.String(),
        url: nullable(Type.String(), { description: 'Page of the run.' }),
      }),
      { description: 'Copy of the run in an external tracker. Null without a tracker, and before the copy exists.' },
    ),
    lora: LoraObjectSchema,
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    tags: Type.Array(Type.String(), { description: 'Sorted; each once.' }),
    notes: Type.String({ description: 'Free text; empty without notes.' }),
    archived_at: nullable(Type.Integer(), {
      description: 'Unix seconds; null for a model that is not archived. An archived one takes no training jobs.',
    }),
    latest_step: nullable(Type.Integer({ minimum: 0 }), {
      description: 'Step that the bare name refers to; null if all its checkpoints were deleted.',
    }),
    num_checkpoints: Type.Integer({ minimum: 0, description: 'Number of existing checkpoints, including step 0.' }),
    num_gradient_steps: Type.Integer({ minimum: 0, description: 'Number of gradient steps in all its jobs.' }),
    metrics: Type.Unsafe<Record<string, number>>({
      type: 'object',
      additionalProperties: { type: 'number' },
      description: 'Metrics of the latest checkpoint.',
    }),
    reward: nullable(
      Type.Object({
        step: Type.Integer({ minimum: 0, description: 'Step that sampled the rollouts.' }),
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
        description: 'Kept checkpoint with the highest reward, available as `NAME:best`; null before the first reward.',
      },
    ),
    live_jobs: Type.Object(
      {
        queued: Type.Integer({ minimum: 0 }),
        running: Type.Integer({ minimum: 0 }),
        paused: Type.Integer({ minimum: 0 }),
      },
      { description: 'Numbers of its training jobs that have not ended.' },
    ),
    last_job: nullable(
      Type.Object({
        id: Type.String(),
        status: Type.Enum(['succeeded', 'failed', 'cancelled']),
        error_message: nullable(Type.String(), { description: 'Null after success.' }),
        finished_at: Type.Integer({ description: 'Unix seconds.' }),
      }),
      { description: 'The last of its training jobs that ended; null before the first.' },
    ),
  },
  { title: 'ModelDetails' },
);
export { ModelDetailsSchema };
export type ModelDetailsObject = Static<typeof ModelDetailsSchema>;
export const ModelDetailsPageSchema = listPageSchema('ModelDetailsPage', ModelDetailsSchema);
