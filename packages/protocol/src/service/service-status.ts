import Type, { type Static } from 'typebox';

/** How the service is, and which one it is. */

export const HealthSchema = Type.Object(
  {
    status: Type.Union([Type.Literal('healthy'), Type.Literal('degraded')]),
    reasons: Type.Array(
      Type.Object({
        part: Type.Union([
          Type.Literal('inference'),
          Type.Literal('training'),
          Type.Literal('store'),
          Type.Literal('machine'),
        ]),
        reason: Type.String(),
      }),
      { description: 'What does not work as it should, and why; empty when healthy.' },
    ),
    notices: Type.Optional(
      Type.Array(Type.String(), {
        description: 'Things that an operator should know of while all works, such as a clock that has stepped.',
      }),
    ),
  },
  { title: 'Health' },
);
export type Health = Static<typeof HealthSchema>;

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
