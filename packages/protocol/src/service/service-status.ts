import Type, { type Static } from 'typebox';

/** State and identity of the service. */

const ReasonsSchema = Type.Array(
  Type.Object({
    part: Type.Union([
      Type.Literal('inference'),
      Type.Literal('training'),
      Type.Literal('store'),
      Type.Literal('machine'),
      Type.Literal('bucket'),
      Type.Literal('engines'),
      Type.Literal('trainers'),
      Type.Literal('draining'),
    ]),
    reason: Type.String(),
  }),
  { description: 'Problems and their reasons; empty if there are none.' },
);

const AnsweringPartSchema = Type.Object({
  is_up: Type.Boolean({ description: 'True if it answered within 2 s at the last check, at most 2 s ago.' }),
  reason: Type.Union([Type.String(), Type.Null()]),
});

const PartCountSchema = Type.Object({
  ready: Type.Integer({ minimum: 0, description: 'Number that currently accept work.' }),
  total: Type.Integer({ minimum: 0, description: 'Number that are registered and not shutting down.' }),
});

const HealthPartsSchema = Type.Object(
  {
    database: AnsweringPartSchema,
    bucket: Type.Union([AnsweringPartSchema, Type.Null()], { description: 'Null if blobs are stored in a folder.' }),
    engines: Type.Union([PartCountSchema, Type.Null()], {
      description: 'Engines and vLLM servers used by this process; null if it does not sample.',
    }),
    trainers: Type.Union([PartCountSchema, Type.Null()], {
      description:
        'Trainers of the service; null if this process neither trains nor queues, or the database is unreachable.',
    }),
    draining: Type.Boolean({ description: 'True if the process is shutting down.' }),
  },
  { title: 'HealthParts', description: 'State of each part.' },
);

export const HealthSchema = Type.Object(
  {
    status: Type.Union([Type.Literal('healthy'), Type.Literal('degraded')]),
    reasons: ReasonsSchema,
    parts: HealthPartsSchema,
    notices: Type.Optional(
      Type.Array(Type.String(), {
        description: 'Notices for operators that do not affect the status, such as a clock that was changed.',
      }),
    ),
  },
  { title: 'Health' },
);
export type Health = Static<typeof HealthSchema>;

export const LivenessSchema = Type.Object({ status: Type.Literal('alive') }, { title: 'Liveness' });
export type Liveness = Static<typeof LivenessSchema>;

export const ReadinessSchema = Type.Object(
  { status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]), reasons: ReasonsSchema },
  { title: 'Readiness' },
);
export type Readiness = Static<typeof ReadinessSchema>;

const PartCheckSchema = Type.Object(
  {
    success: Type.Boolean(),
    duration: Type.Number({ minimum: 0, description: 'Duration of the check in seconds.' }),
    errors: Type.Array(Type.String()),
  },
  { title: 'PartCheck', description: 'State of one part of the service.' },
);
export type PartCheck = Static<typeof PartCheckSchema>;

export const SystemCheckSchema = Type.Object(
  {
    api: Type.Literal(true),
    database: Type.Boolean(),
    cpu_queue: PartCheckSchema,
    gpu_queue: PartCheckSchema,
  },
  { title: 'SystemCheck', description: '`cpu_queue` is sampling; `gpu_queue` is training.' },
);
export type SystemCheck = Static<typeof SystemCheckSchema>;

export const VersionSchema = Type.Object(
  { version: Type.String({ description: 'Version of the service.' }) },
  { title: 'Version' },
);
export type Version = Static<typeof VersionSchema>;
