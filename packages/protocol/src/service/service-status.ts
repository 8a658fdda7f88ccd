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
  { description: 'What does not work as it should, and why; empty when all is well.' },
);

const AnsweringPartSchema = Type.Object({
  is_up: Type.Boolean({ description: 'It answered within 2 s when it was last asked, at most 2 s ago.' }),
  reason: Type.Union([Type.String(), Type.Null()]),
});

const PartCountSchema = Type.Object({
  ready: Type.Integer({ minimum: 0, description: 'Those that take work now.' }),
  total: Type.Integer({ minimum: 0, description: 'Those that are registered and not ending.' }),
});

const HealthPartsSchema = Type.Object(
  {
    database: AnsweringPartSchema,
    bucket: Type.Union([AnsweringPartSchema, Type.Null()], { description: 'null: the blobs are in a folder.' }),
    engines: Type.Union([PartCountSchema, Type.Null()], {
      description: 'Engines and vLLM servers that this process asks; null: it samples nothing.',
    }),
    trainers: Type.Union([PartCountSchema, Type.Null()], {
      description: 'Trainers of the service; null: this process neither trains nor queues, or the database is away.',
    }),
    draining: Type.Boolean({ description: 'This process is ending.' }),
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
        description: 'Things that an operator should know of while all works, such as a clock that has stepped.',
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
    duration: Type.Number({ minimum: 0, description: 'Seconds the check took.' }),
    errors: Type.Array(Type.String()),
  },
  { title: 'PartCheck', description: 'How one part of the service is.' },
);
export type PartCheck = Static<typeof PartCheckSchema>;

export const SystemCheckSchema = Type.Object(
  {
    api: Type.Literal(true),
    database: Type.Boolean(),
    cpu_queue: PartCheckSchema,
    gpu_queue: PartCheckSchema,
  },
  { title: 'SystemCheck', description: '`cpu_queue` is sampling, `gpu_queue` is training.' },
);
export type SystemCheck = Static<typeof SystemCheckSchema>;

export const VersionSchema = Type.Object(
  { version: Type.String({ description: 'Of the service.' }) },
  { title: 'Version' },
);
export type Version = Static<typeof VersionSchema>;
