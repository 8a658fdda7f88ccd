import Type, { type Static } from 'typebox';
import { JsonObjectSchema, optionalNullable } from './schema.ts';

/** A number, or a boolean that counts as 0 or 1. */
const ScalarSchema = Type.Union([Type.Number(), Type.Boolean()]);
const MetricsSchema = Type.Unsafe<Record<string, number | boolean>>({
  type: 'object',
  additionalProperties: { type: ['number', 'boolean'] },
});
const ScalarsSchema = Type.Unsafe<Record<string, number | string | boolean | null>>({
  type: 'object',
  additionalProperties: { type: ['number', 'string', 'boolean', 'null'] },
});

/** A message (has `role`) or a sampled choice (has `message`); told apart by their keys, and read by the server's trajectory parser. */
export const TrajectoryItemSchema = JsonObjectSchema;

export const HistorySchema = Type.Object(
  {
    messages_and_choices: Type.Array(TrajectoryItemSchema),
    tools: optionalNullable(Type.Array(JsonObjectSchema)),
  },
  { title: 'History' },
);
export type WireHistory = Static<typeof HistorySchema>;

/** The record of one rollout. Every key but the reward has a default: a reward that somebody forgot must not train as 0. */
export const TrajectorySchema = Type.Object(
  {
    messages_and_choices: Type.Optional(Type.Array(TrajectoryItemSchema)),
    tools: optionalNullable(Type.Array(JsonObjectSchema)),
    additional_histories: Type.Optional(Type.Array(HistorySchema)),
    reward: ScalarSchema,
    initial_policy_version: optionalNullable(Type.Integer()),
    final_policy_version: optionalNullable(Type.Integer()),
    metrics: Type.Optional(MetricsSchema),
    metadata: Type.Optional(ScalarsSchema),
    logs: Type.Optional(Type.Array(Type.String())),
  },
  { title: 'Trajectory' },
);
export type WireTrajectory = Static<typeof TrajectorySchema>;

/** The rollouts of one scenario. `exceptions` are failed rollouts: they count in statistics only. */
export const TrajectoryGroupSchema = Type.Object(
  {
    trajectories: Type.Array(TrajectorySchema),
    exceptions: Type.Optional(
      Type.Array(
        Type.Object({
          type: Type.Optional(Type.String()),
          message: Type.Optional(Type.String()),
          traceback: optionalNullable(Type.String()),
        }),
      ),
    ),
    metadata: Type.Optional(ScalarsSchema),
    metrics: Type.Optional(MetricsSchema),
    logs: Type.Optional(Type.Array(Type.String())),
  },
  { title: 'TrajectoryGroup' },
);
export type WireTrajectoryGroup = Static<typeof TrajectoryGroupSchema>;

/** One entry of a choice's `logprobs.content`. */
export interface WireLogprobEntry {
  token: string;
  logprob: number;
  bytes?: number[] | null;
  top_logprobs?: unknown[];
}

/** A sampled reply as the inference route returned it; unknown keys survive the round trip. */
export interface WireChoice {
  finish_reason?: string | null;
  index?: number;
  logprobs?: { content?: WireLogprobEntry[] | null; refusal?: WireLogprobEntry[] | null } | null;
  message: { role?: string; content?: unknown; [key: string]: unknown };
  token_ids?: number[] | null;
  /** What it was sampled after. */
  prompt_token_ids?: number[] | null;
  /** Where the service keeps what was sampled: tokens and log-probabilities may be left out. */
  record_id?: string | null;
  [key: string]: unknown;
}
