import Type, { type Static } from 'typebox';
import { nullable } from '../shape/schema.ts';

/** Parts of the service, for its operators. */

const Count = (description: string) => Type.Integer({ minimum: 0, description });
/** Measure over all entities. */
const SharedCount = (description: string) =>
  nullable(Type.Integer({ minimum: 0 }), {
    description: `${description} Null for admins of other entities than the service's own.`,
  });

const LoadedStepsSchema = (description: string) =>
  Type.Array(
    Type.Object({
      model: Type.String({ description: '`entity/project/name`.' }),
      step: Count('Step of the model.'),
      since: Type.Integer({ description: 'When it was loaded, or found to be loaded, in seconds since 1970.' }),
    }),
    { description },
  );

const POOL_SERVER = {
  url: Type.String({ description: 'Its address, without a path or a key.' }),
  kind: Type.Enum(['engine', 'vllm'], {
    description: '`engine`: one of this service, on another machine. `vllm`: a vLLM server.',
  }),
  state: Type.Enum(['up', 'draining', 'failing', 'down', 'unfit'], {
    description:
      '`up`: takes requests. `draining`: takes no new ones. `failing`: its health is well and its requests fail. `down`: not to be had. `unfit`: it answers, and is another model, say.',
  }),
  trouble: nullable(Type.String(), { description: 'Why it takes no requests, with what to do; null while it does.' }),
  version: nullable(Type.String(), { description: 'Of its software; null: it does not say.' }),
  num_choices: Count('Choices in flight there.'),
  num_adapters: Count('Adapters that it was given.'),
  steps: LoadedStepsSchema(
    'Steps of models that it has loaded, the newest first. An engine with vLLM servers has none itself: see its `members`.',
  ),
  refused_steps: Type.Array(
    Type.Object({
      model: Type.String({ description: '`entity/project/name`.' }),
      step: Count('Step of the model.'),
      reason: Type.String({ description: 'Why it does not load the step.' }),
      until: Type.Integer({ description: 'When it is asked again, in seconds since 1970.' }),
    }),
    {
      description:
        'Steps of models that a vLLM server refused to load in the last minute. It is not asked for them until then.',
    },
  ),
  kv_use: nullable(Type.Number({ minimum: 0, maximum: 1 }), {
    description: 'Part of its KV cache in use, some seconds ago; null: it does not say.',
  }),
  num_requests: Count('Requests that it was sent, since the service started.'),
  num_failures: Count('Of them, those that failed by its fault.'),
  num_losses: Count('Times that it was lost.'),
  generated_tokens: Count('Tokens that it sampled.'),
};

const PoolMemberSchema = Type.Object(
  {
    ...POOL_SERVER,
    members: Type.Array(Type.Object(POOL_SERVER, { title: 'PoolServer' }), {
      description: 'vLLM servers that sample for an engine; none for others.',
    }),
  },
  { title: 'PoolMember' },
);

const SamplingHostSchema = Type.Object(
  {
    base_model: Type.String(),
    max_model_len: Count('Longest sequence, prompt and reply together, in tokens.'),
    untrainable: nullable(Type.String(), { description: 'Why it cannot be trained; null: it can.' }),
    is_loaded: Type.Boolean({ description: 'Whether it is in memory; the numbers are 0 while it is not.' }),
    num_requests: SharedCount('Requests in it.'),
    num_running: SharedCount('Choices in the batch.'),
    num_waiting: SharedCount('Choices waiting for space in the KV cache.'),
    kv_used_tokens: SharedCount('Cells of the KV cache in use, those kept for later included.'),
    kv_cached_tokens: SharedCount('Of them, those that only wait to be used again.'),
    kv_capacity_tokens: Count('Cells that there are.'),
    num_adapters: SharedCount('Adapters in memory.'),
    steps: LoadedStepsSchema(
      "Steps of models that the engine of this process has in memory, the newest first; none where `members` sample, and for admins of other entities than the service's own.",
    ),
    num_preemptions: SharedCount('Choices that gave their room back, since it was loaded.'),
    prompt_tokens: SharedCount('Prompt tokens of requests that began, since it was loaded.'),
    generated_tokens: SharedCount('Tokens sampled, since it was loaded.'),
    prefix_query_tokens: SharedCount(
      'Tokens looked for in memory before they were computed, since it was loaded: the prompt of each choice.',
    ),
    prefix_hit_tokens: SharedCount('Of them, those that were found.'),
    members: Type.Array(PoolMemberSchema, {
      description:
        "The engines on other machines, or the vLLM servers, that sample; none where this process has the engine, and for admins of other entities than the service's own.",
    }),
  },
  { title: 'SamplingHost' },
);

const ProcessSchema = Type.Object(
  {
    role: Type.Enum(['api', 'engine', 'trainer'], {
      description: 'A process with several roles is listed once per role.',
    }),
    url: nullable(Type.String(), { description: 'Its address for the other processes; null: it has none.' }),
    version: Type.String({ description: 'Of its release.' }),
    machine_trouble: nullable(Type.String(), {
      description:
        'Limits of its machine that are near, with the next step: a full or slow disk, file handles, threads. Null: none, or it does not say.',
    }),
  },
  { title: 'ServiceProcess' },
);

const PartState = (description: string) =>
  Type.Object(
    { trouble: nullable(Type.String(), { description: 'Why it does not work as it should; null when it does.' }) },
    { description },
  );

export const HostsSchema = Type.Object(
  {
    version: Type.String({ description: 'Of the service.' }),
    sampling: Type.Object({
      trouble: nullable(Type.String(), { description: 'Why it does not work as it should; null when it does.' }),
      hosts: Type.Array(SamplingHostSchema, { description: 'One a base model, the default one first.' }),
    }),
    training: Type.Object(
      {
        trouble: nullable(Type.String(), { description: 'Why it does not work as it should; null when it does.' }),
        base_models: nullable(Type.Array(Type.String()), {
          description: 'Base models whose jobs a trainer takes that runs now, in whatever process; null: any.',
        }),
      },
      { description: 'What trains.' },
    ),
    store: PartState('What remembers.'),
    tracking: nullable(
      Type.Object({
        tracker: Type.String({ description: 'E.g. `mlflow`.' }),
        trouble: nullable(Type.String(), { description: 'Why it does not work as it should; null when it does.' }),
      }),
      { description: 'Where runs are told too; null: nowhere else.' },
    ),
    processes: Type.Array(ProcessSchema, {
      description:
        "Processes of the service with their machines, as of some seconds ago. Without a shared database it is the one that answers. Empty for admins of other entities than the service's own.",
    }),
  },
  { title: 'Hosts' },
);
export type HostsObject = Static<typeof HostsSchema>;
