import Type, { type Static } from 'typebox';
import { JsonObjectSchema, optionalNullable } from '../shape/schema.ts';

/** A number, or a boolean that counts as 0 or 1. */
const ScalarSchema = Type.Union([Type.Number(), Type.Boolean()]);
const MetricsSchema = Type.Unsafe<Record<string, number | boolean>>({
  type: 'object',
  additionalProperties: { type: ['number', 'boolean'] },
});

/**
 * A message (has `role`) or a sampled choice (has `message`); distinguished by their keys, and parsed by the
 * server.
 */
export const TrajectoryItemSchema = JsonObjectSchema;

export const HistorySchema = Type.Object(
  {
    messages_and_choices: Type.Array(TrajectoryItemSchema),
    tools: optionalNullable(Type.Array(JsonObjectSchema)),
    chat_template_kwargs: optionalNullable(JsonObjectSchema),
  },
  { title: 'History' },
);
export type WireHistory = Static<typeof HistorySchema>;

/** A call to a model as recorded by a client; the rest of request and response is ignored. */
const ExchangeSchema = Type.Object(
  {
    model: optionalNullable(Type.String()),
    request: Type.Object({
      model: optionalNullable(Type.String()),
      messages: Type.Array(TrajectoryItemSchema),
      tools: optionalNullable(Type.Array(JsonObjectSchema)),
      chat_template_kwargs: optionalNullable(JsonObjectSchema),
      reasoning_effort: optionalNullable(Type.Unknown()),
      documents: optionalNullable(Type.Unknown()),
    }),
    response: Type.Object({
      id: Type.Optional(Type.Unknown()),
      model: optionalNullable(Type.String()),
      choices: Type.Array(TrajectoryItemSchema),
    }),
  },
  { title: 'Exchange' },
);
export type WireExchange = Static<typeof ExchangeSchema>;

/** A call in another form, parsed as that form if it is a call to the trained model. */
const OtherExchangeSchema = Type.Object(
  {
    model: optionalNullable(Type.String()),
    request: optionalNullable(JsonObjectSchema),
    response: optionalNullable(JsonObjectSchema),
  },
  { title: 'OtherExchange' },
);
export type WireOtherExchange = Static<typeof OtherExchangeSchema>;
const OtherExchangesSchema = optionalNullable(Type.Array(OtherExchangeSchema));

/** Calls of a rollout by the form of the API, each list in order of time. */
export const ExchangesSchema = Type.Object(
  {
    chat_completions: optionalNullable(Type.Array(ExchangeSchema)),
    completions: OtherExchangesSchema,
    responses: OtherExchangesSchema,
    messages: OtherExchangesSchema,
  },
  { title: 'Exchanges' },
);
export type WireExchanges = Static<typeof ExchangesSchema>;

/**
 * Record of one rollout as received: every key has a default, because clients omit values equal to it (ART
 * from 0.5.19 on), including a reward of 0.
 */
export const TrajectorySchema = Type.Object(
  {
    exchanges: optionalNullable(ExchangesSchema),
    messages_and_choices: Type.Optional(Type.Array(TrajectoryItemSchema)),
    tools: optionalNullable(Type.Array(JsonObjectSchema)),
    chat_template_kwargs: optionalNullable(JsonObjectSchema),
    additional_histories: Type.Optional(Type.Array(HistorySchema)),
    reward: Type.Optional(ScalarSchema),
    initial_policy_version: optionalNullable(Type.Integer()),
    final_policy_version: optionalNullable(Type.Integer()),
    metrics: Type.Optional(MetricsSchema),
    metadata: Type.Optional(JsonObjectSchema),
    logs: Type.Optional(Type.Array(Type.String())),
  },
  { title: 'Trajectory' },
);
export type SentTrajectory = Static<typeof TrajectorySchema>;

/** Complete record of one rollout: calls are histories, and there is a reward. */
export type WireTrajectory = Omit<SentTrajectory, 'exchanges' | 'reward'> & { reward: number | boolean };

/** Rollouts of one scenario. `exceptions` are failed rollouts, which count only in statistics. */
export const TrajectoryGroupSchema = Type.Object(
  {
    trajectories: Type.Optional(Type.Array(TrajectorySchema)),
    exceptions: Type.Optional(
      Type.Array(
        Type.Object({
          type: Type.Optional(Type.String()),
          message: Type.Optional(Type.String()),
          traceback: optionalNullable(Type.String()),
        }),
      ),
    ),
    metadata: Type.Optional(JsonObjectSchema),
    metrics: Type.Optional(MetricsSchema),
    logs: Type.Optional(Type.Array(Type.String())),
  },
  { title: 'TrajectoryGroup' },
);
export type SentTrajectoryGroup = Static<typeof TrajectoryGroupSchema>;
export type WireTrajectoryGroup = Omit<SentTrajectoryGroup, 'trajectories'> & { trajectories: WireTrajectory[] };

/** One entry of a choice's `logprobs.content`. */
export interface WireLogprobEntry {
  token: string;
  logprob: number;
  bytes?: number[] | null;
  top_logprobs?: unknown[];
}

/** A sampled reply as returned by the inference route; unknown keys survive the round trip. */
export interface WireChoice {
  finish_reason?: string | null;
  index?: number;
  logprobs?: { content?: WireLogprobEntry[] | null; refusal?: WireLogprobEntry[] | null } | null;
  message: { role?: string; content?: unknown; [key: string]: unknown };
  token_ids?: number[] | null;
  /** Prompt that it was sampled after. */
  prompt_token_ids?: number[] | null;
  /** Id of the service's record of the choice: tokens and log-probabilities may then be omitted. */
  record_id?: string | null;
  [key: string]: unknown;
}
