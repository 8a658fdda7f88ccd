import Type, { type Static } from 'typebox';
import { listPageSchema, nullable } from '../shape/schema.ts';

/** All events in one order. */

export const ServiceEventQuerySchema = Type.Object({
  after: Type.Optional(
    Type.String({
      pattern: '^(?:0|[A-Za-z0-9_-]{22})$',
      description:
        'Id of the last event already seen; 0 means none. Default: a page starts with the oldest kept event (with the newest if `order` is `desc`), a stream with new events.',
    }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, default: 100, description: 'Maximum number of events per page.' }),
  ),
  model_id: Type.Optional(Type.String({ maxLength: 128, description: 'Only events of this model.' })),
  order: Type.Optional(
    Type.Enum(['asc', 'desc'], {
      description: 'Order of a page. Default `asc`, the oldest first. Streams are always `asc`.',
    }),
  ),
});
export type ServiceEventQuery = Static<typeof ServiceEventQuerySchema>;

/** Types of service events other than those of jobs. */
export const SERVICE_EVENT_TYPES = [
  'model_created',
  'model_labelled',
  'model_deleted',
  'checkpoint_created',
  'checkpoints_deleted',
  'log_recorded',
  'job_queued',
  'job_started',
  'job_paused',
  'job_resumed',
] as const;
/** More types may be added. */
export type ServiceEventType = (typeof SERVICE_EVENT_TYPES)[number] | (string & {});

export const ServiceEventSchema = Type.Object(
  {
    id: Type.String({ description: 'Unique and stable. Ids are not ordered.' }),
    type: Type.Unsafe<ServiceEventType>({
      type: 'string',
      description: `One of ${SERVICE_EVENT_TYPES.map((type) => `\`${type}\``).join(', ')}, or the type of a job event. \`job_started\` is sent once per job; a job that continues after a pause, a restart or a lost worker sends \`job_resumed\`.`,
    }),
    model_id: nullable(Type.String()),
    job_id: nullable(Type.String()),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    data: Type.Unsafe<Record<string, unknown>>({ type: 'object', description: 'Data as in the events of the job.' }),
  },
  { title: 'ServiceEvent' },
);
export type ServiceEventObject = Static<typeof ServiceEventSchema>;
export const ServiceEventPageSchema = listPageSchema('ServiceEventPage', ServiceEventSchema);
