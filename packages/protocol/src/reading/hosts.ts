import Type, { type Static } from 'typebox';
import { nullable } from '../shape/schema.ts';

/** Parts of the service, for its operators. */

const Count = (description: string) => Type.Integer({ minimum: 0, description });
/** Measure over all entities. */
const SharedCount = (description: string) =>
  nullable(Type.Integer({ minimum: 0 }), {
    description: `${description} Null for admins of entities other than the service's own.`,
  });

const LoadedStepsSchema = (description: string) =>
  Type.Array(
    Type.Object({
      model: Type.String({ description: '`entity/project/name`.' }),
      step: Count('Step of the model.'),
      since: Type.Integer({ description: 'Unix seconds when the step was loaded or found to be loaded.' }),
    }),
    { description },
  );

const POOL_SERVER = {
  url: Type.String({ description: 'Address of the server, without path and key.' }),
  kind: Type.Enum(['engine', 'vllm'], {
    description: '`engine`: an engine of this service on another machine. `vllm`: a vLLM server.',
  }),
  state: Type.Enum(['up', 'draining', 'failing', 'down', 'unfit'], {
    description:
      '`up`: accepts requests. `draining`: accepts no new requests. `failing`: healthy, but its requests fail. `down`: unreachable. `unfit`: it answers but cannot be used, for example because it serves another model.',
  }),
  trouble: nullable(Type.String(), {
    description: 'Reason why it accepts no requests, with the next step; null while it accepts them.',
  }),
  version: nullable(Type.String(), { description: 'Version of its software; null if unknown.' }),
  num_choices: Count('Choices in flight on the server.'),
  num_adapters: Count('Adapters that were sent to it.'),
  steps: LoadedStepsSchema(
    'Loaded steps of models, newest first. An engine with vLLM servers loads none itself: see its `members`.',
  ),
  refused_steps: Type.Array(
    Type.Object({
      model: Type.String({ description: '`entity/project/name`.' }),
      step: Count('Step of the model.'),
      reason: Type.String({ description: 'Reason why it refused the step.' }),
      until: Type.Integer({ description: 'Unix seconds of the next attempt.' }),
    }),
    {
      description:
        'Steps of models that a vLLM server refused to load in the last minute. They are not requested again before `until`.',
    },
  ),
  kv_use: nullable(Type.Number({ minimum: 0, maximum: 1 }), {
    description: 'Fraction of its KV cache in use, as of a few seconds ago; null if unknown.',
  }),
  num_requests: Count('Requests sent to it since the service started.'),
  num_failures: Count('Requests that failed because of the server.'),
  num_losses: Count('Number of times that the connection to it was lost.'),
  generated_tokens: Count('Tokens sampled by it.'),
};

const PoolMemberSchema = Type.Object(
  {
    ...POOL_SERVER,
    members: Type.Array(Type.Object(POOL_SERVER, { title: 'PoolServer' }), {
      description: 'vLLM servers that sample for an engine; empty otherwise.',
    }),
  },
  { title: 'PoolMember' },
);

const SamplingHostSchema = Type.Object(
  {
    base_model: Type.String(),
    max_model_len: Count('Maximum sequence length (prompt and reply), in tokens.'),
    untrainable: nullable(Type.String(), { description: 'Reason why it cannot be trained; null if it can.' }),
    is_loaded: Type.Boolean({ description: 'True if the model is in memory. The numbers are 0 while it is not.' }),
    num_requests: SharedCount('Requests in progress.'),
    num_running: SharedCount('Choices in the batch.'),
    num_waiting: SharedCount('Choices waiting for space in the KV cache.'),
    kv_used_tokens: SharedCount('Tokens in the KV cache, including those kept for reuse.'),
    kv_cached_tokens: SharedCount('Tokens in the KV cache that are only kept for reuse.'),
    kv_capacity_tokens: Count('Capacity of the KV cache, in tokens.'),
    num_adapters: SharedCount('Adapters in memory.'),
    steps: LoadedStepsSchema(
      "Steps of models that the engine of this process has in memory, newest first. Empty if `members` sample, and for admins of entities other than the service's own.",
    ),
    num_preemptions: SharedCount('Choices that were preempted since the model was loaded.'),
    prompt_tokens: SharedCount('Prompt tokens of started requests since the model was loaded.'),
    generated_tokens: SharedCount('Tokens sampled since the model was loaded.'),
    prefix_query_tokens: SharedCount(
      'Prompt tokens of all choices looked up in the prefix cache since the model was loaded.',
    ),
    prefix_hit_tokens: SharedCount('Prompt tokens found in the prefix cache since the model was loaded.'),
    members: Type.Array(PoolMemberSchema, {
      description:
        "Engines on other machines, or vLLM servers, that sample. Empty if this process has the engine, and for admins of entities other than the service's own.",
    }),
  },
  { title: 'SamplingHost' },
);

const ProcessSchema = Type.Object(
  {
    role: Type.Enum(['api', 'engine', 'trainer'], {
      description: 'A process with several roles is listed once per role.',
    }),
    url: nullable(Type.String(), { description: 'Address of the process for other processes; null if it has none.' }),
    version: Type.String({ description: 'Version of its release.' }),
    machine_trouble: nullable(Type.String(), {
      description:
        'Limits that its machine is close to, with the next step: a full or slow disk, file handles, threads. Null if there are none or they are unknown.',
    }),
  },
  { title: 'ServiceProcess' },
);

const PartState = (description: string) =>
  Type.Object(
    { trouble: nullable(Type.String(), { description: 'Description of the problem; null if there is none.' }) },
    { description },
  );

export const HostsSchema = Type.Object(
  {
    version: Type.String({ description: 'Version of the service.' }),
    sampling: Type.Object({
      trouble: nullable(Type.String(), { description: 'Description of the problem; null if there is none.' }),
      hosts: Type.Array(SamplingHostSchema, { description: 'One host per base model, the default model first.' }),
    }),
    training: Type.Object(
      {
        trouble: nullable(Type.String(), { description: 'Description of the problem; null if there is none.' }),
        base_models: nullable(Type.Array(Type.String()), {
          description: 'Base models for which a trainer is running in any process; null means any base model.',
        }),
      },
      { description: 'State of training.' },
    ),
    machine: nullable(
      Type.Object(
        {
          num_cores: Count('Cores that the process may use.'),
          load: Type.Number({ minimum: 0, description: 'Processes that compute or wait for it, mean of a minute.' }),
          memory_bytes: Count('Memory of the machine.'),
          free_memory_bytes: Count('Memory that a new process could take.'),
          process_bytes: Count('Memory of the answering process, without its hosts.'),
          free_disk_bytes: nullable(Type.Integer({ minimum: 0 }), {
            description: 'Free space on the disk of the data folder; null if unknown.',
          }),
          sync_seconds: nullable(Type.Number({ minimum: 0 }), {
            description: 'Duration of the last timed write to that disk; null before the first.',
          }),
        },
        { title: 'Machine' },
      ),
      {
        description: "Machine of the process that answers. Null for admins of entities other than the service's own.",
      },
    ),
    store: PartState('State of the store.'),
    tracking: nullable(
      Type.Object({
        tracker: Type.String({ description: 'E.g. `mlflow`.' }),
        trouble: nullable(Type.String(), { description: 'Description of the problem; null if there is none.' }),
      }),
      { description: 'Tracker to which runs are also reported; null if there is none.' },
    ),
    processes: Type.Array(ProcessSchema, {
      description:
        "Processes of the service with their machines, as of a few seconds ago. Without a shared database, only the process that answers. Empty for admins of entities other than the service's own.",
    }),
  },
  { title: 'Hosts' },
);
export type HostsObject = Static<typeof HostsSchema>;
