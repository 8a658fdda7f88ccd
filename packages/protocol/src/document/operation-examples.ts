import { FORM_EXAMPLES } from './form-examples.ts';
import type { OperationExample } from './operation-example.ts';

export type { OperationExample } from './operation-example.ts';

const BASE_MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const MODEL_ID = '3f0c1f52-6a0e-4f0e-9c55-0d1f6b0a7c11';
const JOB_ID = 'b0a5c7de-93a4-4b06-8d5e-0f3f7f1f2a22';
const EXPORT_ID = '5d3b8a90-1c2e-4e7a-a1f4-2b9c8d7e6f33';
const ADAPTER_ID = '9e1f2a3b-4c5d-4e6f-8a7b-8c9d0e1f2a44';
const ARTIFACT_ID = '7c6b5a49-3827-4615-9403-f2e1d0c9b855';
const DIGEST = 'b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c';
const CREATED = 1_767_225_600;

const question = { role: 'user', content: 'Is the sky blue? Answer yes or no.' };
const model = 'local/demo/yes-or-no:step3';

const usage = {
  prompt_tokens: 41,
  total_tokens: 43,
  completion_tokens: 2,
  prompt_tokens_details: { cached_tokens: 40 },
  completion_tokens_details: null,
};

const completion = {
  id: 'chatcmpl-2a6f0e0f5b7c4a31',
  object: 'chat.completion',
  created: CREATED,
  model,
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: 'Yes',
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        reasoning: null,
      },
      logprobs: {
        content: [
          { token: 'Yes', logprob: -0.41, bytes: [89, 101, 115], top_logprobs: [] },
          {
            token: '<|im_end|>',
            logprob: -0.02,
            bytes: [60, 124, 105, 109, 95, 101, 110, 100, 124, 62],
            top_logprobs: [],
          },
        ],
      },
      finish_reason: 'stop',
      stop_reason: null,
      token_ids: null,
      routed_experts: null,
      record_id: 'rec-4b1f0a9c8e7d6f5a',
    },
  ],
  service_tier: null,
  system_fingerprint: 'trainyard-b5bb9d80',
  usage,
  prompt_logprobs: null,
  prompt_token_ids: null,
  prompt_text: null,
  kv_transfer_params: null,
  ec_transfer_params: null,
  metrics: null,
};

const lora = {
  rank: 8,
  alpha: 16,
  targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
  use_rslora: false,
  rank_pattern: {},
  alpha_pattern: {},
  dropout: 0,
  init_seed: 0,
  init_from: null,
};

const fetchedBase = {
  id: 'Qwen/Qwen3-0.6B',
  status: 'running',
  job_id: 'b8a6a3a5-4d7e-4d1c-9f0e-3a9f6f1c2d4e',
  done_bytes: 402_653_184,
  total_bytes: 1_503_300_328,
  remaining_seconds: 41,
  error_message: null,
};

const registeredModel = {
  id: MODEL_ID,
  entity: 'local',
  project: 'demo',
  name: 'yes-or-no',
  base_model: BASE_MODEL,
  run_id: MODEL_ID,
  lora,
};

const job = {
  id: JOB_ID,
  model_id: MODEL_ID,
  kind: 'rl',
  status: 'running',
  is_paused: false,
  waiting_for: null,
  created_at: CREATED,
  started_at: CREATED + 1,
  finished_at: null,
  data_removed_at: null,
  start_step: 3,
  error_message: null,
  config: { learning_rate: 1e-4 },
  changed_config_keys: ['learning_rate'],
  training_data: null,
  ignored_config_keys: [],
  num_gradient_steps_done: 1,
  counts: null,
  group_outcomes: ['trained'],
  warnings: [],
};
const listedTrajectory = {
  id: `${JOB_ID}.0.1`,
  model_id: MODEL_ID,
  job_id: JOB_ID,
  log_id: null,
  split: 'train',
  step: 3,
  group: 0,
  index: 1,
  reward: 1,
  outcome: 'trained',
  advantage: 0.9,
  prompt_digest: '6f2c1a0d5b7e4c3f9a8d7e6b5c4d3e2f',
  created_at: CREATED,
  question: 'What is 17 times 23?',
  excerpt: 'It is 391.',
  num_turns: 1,
  num_tokens: 12,
  finish_reason: 'stop',
  metrics: { num_words: 3 },
};
const serviceEvent = {
  id: 'mJ2x0cWkQ0aPq3nV8yT1Lg',
  type: 'checkpoint_created',
  model_id: MODEL_ID,
  job_id: JOB_ID,
  created_at: CREATED,
  data: { step: 3 },
};
const modelDetails = {
  ...registeredModel,
  is_served: true,
  tracked_run: null,
  created_at: CREATED,
  tags: [],
  notes: '',
  archived_at: null,
  latest_step: 3,
  num_checkpoints: 4,
  num_gradient_steps: 12,
  metrics: { 'train/kl_base': 0.04, 'val/reward': 0.75 },
  reward: { step: 2, value: 0.7 },
  best: { step: 3, metric: 'val/reward', value: 0.75 },
  live_jobs: { queued: 0, running: 1, paused: 0 },
  last_job: { id: JOB_ID, status: 'succeeded', error_message: null, finished_at: CREATED + 60 },
};
const supervisedJob = {
  ...job,
  kind: 'sft',
  status: 'queued',
  started_at: null,
  start_step: null,
  group_outcomes: null,
};

const trajectory = (reward: number) => ({
  messages_and_choices: [question, completion.choices[0]],
  reward,
});
const group = { trajectories: [trajectory(1), trajectory(0)] };

const artifact = {
  id: ARTIFACT_ID,
  entity: 'local',
  project: 'demo',
  name: 'facts',
  version: 'v0',
  url: 'wandb-artifact:///local/demo/facts:v0',
  file_name: 'train.jsonl',
  size_bytes: 2048,
  num_lines: 12,
  digest: DIGEST,
  created_at: CREATED,
};
const artifactName = { entity: 'local', project: 'demo', name: 'facts' };

const exported = {
  id: EXPORT_ID,
  model_id: MODEL_ID,
  step: 3,
  format: 'peft',
  dtype: 'f32',
  status: 'succeeded',
  created_at: CREATED,
  finished_at: CREATED + 9,
  source_digest: DIGEST,
  files: [{ name: 'adapter_model.safetensors', size_bytes: 9_789_440, sha256: DIGEST }],
  parity: {
    num_tokens: 64,
    mean_abs_difference: 2e-6,
    max_abs_difference: 1e-5,
    computed_by: 'trainer',
    adapter_effect: 0.21,
  },
  error_message: null,
};

const apiKey = {
  id: '5f1c2f0a-7f7e-4a53-9a0f-0b3c6a1d2e4f',
  object: 'api_key',
  name: 'ci',
  entity: 'local',
  scopes: ['inference', 'training'],
  limits: { requests_per_minute: 60, tokens_per_minute: null, max_requests_in_flight: 8 },
  hint: 'ty-AAAA',
  is_service_key: false,
  created_at: 1_780_000_000,
  last_used_at: 1_785_000_000,
  expires_at: 4_000_000_000,
  revoked_at: null,
};
const adapter = {
  id: ADAPTER_ID,
  name: `adapter:${ADAPTER_ID}`,
  base_model: BASE_MODEL,
  status: 'ready',
  created_at: CREATED,
  lora: {
    rank: 8,
    alpha: 16,
    targets: ['q_proj', 'v_proj'],
    use_rslora: false,
    rank_pattern: { q_proj: 4 },
    alpha_pattern: {},
  },
  digest: DIGEST,
};

const modelCard = {
  id: model,
  object: 'model',
  created: CREATED,
  owned_by: 'local',
  root: BASE_MODEL,
  parent: BASE_MODEL,
  max_model_len: 8192,
  trainable: true,
  permission: [],
};

const page = <Item extends { id: string }>(item: Item) => ({
  object: 'list',
  data: [item],
  first_id: item.id,
  last_id: item.id,
  has_more: false,
});

/** Examples by id of the operation. */
export const OPERATION_EXAMPLES: Readonly<Record<string, OperationExample>> = {
  ...FORM_EXAMPLES,
  createChatCompletion: {
    body: { model: 'yes-or-no', messages: [question], max_tokens: 8, logprobs: true },
    answer: completion,
    chunk: {
      id: completion.id,
      object: 'chat.completion.chunk',
      created: CREATED,
      model,
      choices: [{ index: 0, delta: { content: 'Yes' }, logprobs: null, finish_reason: null }],
    },
  },
  createCompletion: {
    body: { model: BASE_MODEL, prompt: 'The sky is', max_tokens: 4 },
    answer: {
      id: 'cmpl-2a6f0e0f5b7c4a31',
      object: 'text_completion',
      created: CREATED,
      model: BASE_MODEL,
      choices: [
        {
          index: 0,
          text: ' blue and clear today',
          logprobs: null,
          finish_reason: 'length',
          stop_reason: null,
          token_ids: null,
          prompt_logprobs: null,
          prompt_token_ids: null,
        },
      ],
      service_tier: null,
      system_fingerprint: 'trainyard-base',
      usage: { ...usage, prompt_tokens: 3, total_tokens: 7, completion_tokens: 4, prompt_tokens_details: null },
      kv_transfer_params: null,
    },
    chunk: {
      id: 'cmpl-2a6f0e0f5b7c4a31',
      object: 'text_completion',
      created: CREATED,
      model: BASE_MODEL,
      choices: [{ index: 0, text: ' blue', logprobs: null, finish_reason: null, stop_reason: null, token_ids: null }],
    },
  },
  tokenize: {
    body: { model: BASE_MODEL, prompt: 'The sky is', return_token_strs: true },
    answer: { count: 3, max_model_len: 8192, tokens: [504, 6376, 314], token_strs: ['The', ' sky', ' is'] },
  },
  detokenize: {
    body: { model: BASE_MODEL, tokens: [504, 6376, 314] },
    answer: { prompt: 'The sky is' },
  },
  listModels: { answer: { object: 'list', data: [modelCard] } },
  retrieveModel: { path: { model: 'yes-or-no' }, answer: modelCard },
  createModel: {
    body: { project: 'demo', name: 'yes-or-no', base_model: BASE_MODEL, lora: { rank: 8 } },
    answer: registeredModel,
  },
  listBaseModels: {
    answer: { object: 'list', data: [fetchedBase] },
  },
  fetchBaseModel: {
    body: { base_model: fetchedBase.id },
    answer: fetchedBase,
  },
  cancelBaseModel: {
    body: { base_model: fetchedBase.id },
    answer: { ...fetchedBase, status: 'cancelled', remaining_seconds: null, error_message: 'cancelled by a client' },
  },
  updateModel: {
    path: { model_id: MODEL_ID },
    body: { add_tags: ['sweep-1'], notes: 'Twice the learning rate.' },
    answer: { ...modelDetails, tags: ['sweep-1'], notes: 'Twice the learning rate.' },
  },
  deleteModel: {
    path: { model_id: MODEL_ID },
    answer: { model_id: MODEL_ID, deleted_checkpoints: 4, deleted_run: false },
  },
  listCheckpoints: {
    path: { model_id: MODEL_ID },
    query: { limit: 1, order: 'desc' },
    answer: page({
      id: `${MODEL_ID}:3`,
      step: 3,
      metrics: { 'train/reward': 0.62 },
      size_bytes: 20_400_000,
      optimizer_bytes: 20_300_000,
      is_marked: false,
      kept_for: ['last', 'best'],
      removed_at: null,
    }),
  },
  keepCheckpoints: {
    path: { model_id: MODEL_ID },
    body: { steps: [2] },
    answer: { steps: [2], restored_steps: [], not_found_steps: [] },
  },
  deleteCheckpoints: {
    path: { model_id: MODEL_ID },
    body: { steps: [1, 2] },
    answer: { deleted_count: 2, not_found_steps: [] },
  },
  logTrajectories: {
    path: { model_id: MODEL_ID },
    body: { split: 'val', trajectory_groups: [group] },
    answer: { model_id: MODEL_ID, num_trajectories: 2 },
  },
  createTrainingJob: {
    body: { model_id: MODEL_ID, trajectory_groups: [group], experimental_config: { learning_rate: 1e-4 } },
    answer: {
      ...job,
      status: 'queued',
      started_at: null,
      start_step: null,
      num_gradient_steps_done: 0,
      group_outcomes: null,
    },
  },
  createSftTrainingJob: {
    body: { model_id: MODEL_ID, training_data_url: artifact.url, config: { batch_size: 2, learning_rate: 1e-3 } },
    answer: { ...supervisedJob, config: { batch_size: 2, learning_rate: 1e-3 }, num_gradient_steps_done: 0 },
  },
  uploadArtifact: {
    path: artifactName,
    query: { file_name: 'train.jsonl' },
    body: `${JSON.stringify({ messages: [question, { role: 'assistant', content: 'Yes' }] })}\n`,
    answer: artifact,
  },
  listArtifacts: { query: { limit: 20 }, answer: page(artifact) },
  listArtifactVersions: { path: artifactName, query: { order: 'desc' }, answer: page(artifact) },
  retrieveArtifact: { path: { ...artifactName, version: 'latest' }, answer: artifact },
  deleteArtifact: { path: { ...artifactName, version: 'v0' }, answer: { id: ARTIFACT_ID, version: 'v0' } },
  retrieveTrainingJob: { path: { job_id: JOB_ID }, answer: job },
  listTrainingJobs: { path: { model_id: MODEL_ID }, query: { order: 'desc' }, answer: page(job) },
  cancelTrainingJob: {
    path: { job_id: JOB_ID },
    answer: { ...job, status: 'cancelled', finished_at: CREATED + 5, error_message: 'The job was cancelled' },
  },
  retryTrainingJob: {
    path: { job_id: JOB_ID },
    answer: { ...job, status: 'queued', started_at: null, finished_at: null },
  },
  pauseTrainingJob: {
    path: { job_id: JOB_ID },
    answer: {
      ...job,
      status: 'queued',
      is_paused: true,
      waiting_for: { code: 'resume', message: 'Paused. Resume the job to continue.' },
    },
  },
  resumeTrainingJob: { path: { job_id: JOB_ID }, answer: { ...job, status: 'queued' } },
  listTrainingExamples: {
    path: { job_id: JOB_ID },
    query: { limit: 3 },
    answer: {
      object: 'list',
      data: [
        {
          messages: [
            { role: 'user', content: 'What is the capital of Zubrovia?' },
            { role: 'assistant', content: 'Kelmar.' },
          ],
        },
      ],
    },
  },
  listTrainingEvents: {
    path: { job_id: JOB_ID },
    query: { limit: 100 },
    answer: page({
      id: `${JOB_ID}:2`,
      type: 'gradient_step',
      created_at: CREATED + 2.25,
      data: { 'loss/train': -0.012, 'loss/grad_norm': 0.31 },
    }),
    chunk: {
      id: `${JOB_ID}:2`,
      type: 'gradient_step',
      created_at: CREATED + 2.25,
      data: { 'loss/train': -0.012, 'loss/grad_norm': 0.31 },
    },
  },
  listTrainedModels: { query: { limit: 20 }, answer: page(modelDetails) },
  retrieveTrainedModel: { path: { model_id: MODEL_ID }, answer: modelDetails },
  listAllTrainingJobs: { query: { status: 'running', limit: 20 }, answer: page(job) },
  listTrainingQueue: {
    answer: {
      object: 'list',
      data: [
        {
          id: JOB_ID,
          model_id: MODEL_ID,
          kind: 'rl',
          status: 'running',
          is_paused: false,
          num_ahead: 0,
          created_at: CREATED,
          num_gradient_steps_done: 1,
          num_gradient_steps: 4,
        },
      ],
    },
  },
  listMetrics: {
    path: { model_id: MODEL_ID },
    answer: { object: 'list', data: [{ name: 'train/reward', num_points: 12, last_value: 0.75, last_step: 3 }] },
  },
  readSeries: {
    path: { model_id: MODEL_ID },
    query: { name: 'train/reward', axis: 'step', max_points: 500 },
    answer: {
      object: 'list',
      axis: 'step',
      data: [
        {
          name: 'train/reward',
          num_places: 2,
          first: [1, 2],
          last: [1, 2],
          mean: [0.25, 0.5],
          min: [0.25, 0.5],
          max: [0.25, 0.5],
          count: [4, 4],
          recorded_at: [CREATED, CREATED + 60],
          discarded: { at: [], value: [], job_id: [] },
        },
      ],
    },
  },
  listTrajectories: {
    path: { model_id: MODEL_ID },
    query: { step: 3, sort: 'reward', order: 'desc', limit: 20 },
    answer: page(listedTrajectory),
  },
  retrieveTrajectory: {
    path: { trajectory_id: listedTrajectory.id },
    answer: {
      ...listedTrajectory,
      content: { reward: 1, messages_and_choices: [question, { role: 'assistant', content: 'Yes' }] },
      group_content: { metadata: {}, exceptions: [] },
    },
  },
  readTrajectoryTokens: {
    path: { trajectory_id: listedTrajectory.id },
    answer: {
      ...listedTrajectory,
      sequences: [
        {
          gradient_step: 0,
          advantage: 0.9,
          weight: 0.5,
          token_ids: [198, 9904, 2],
          texts: ['\n', 'Yes', '<|im_end|>'],
          is_trained: [false, true, true],
          sampled_logprobs: [null, -0.41, -0.02],
          trained_logprobs: [null, -0.42, -0.02],
          entropies: [null, 1.02, 0.11],
        },
      ],
      choices: [],
    },
  },
  listServiceEvents: { query: { after: '0', limit: 100 }, answer: page(serviceEvent), chunk: serviceEvent },
  readUsage: {
    query: { by: 'day', from: CREATED, to: CREATED + 86_400, project: 'demo' },
    answer: {
      object: 'list',
      from: CREATED,
      to: CREATED + 86_400,
      data: [{ day: '2026-01-01', num_requests: 640, prompt_tokens: 26_240, completion_tokens: 1_280 }],
      has_more: false,
    },
  },
  listHosts: {
    answer: {
      version: '0.1.0',
      sampling: {
        trouble: null,
        hosts: [
          {
            base_model: BASE_MODEL,
            max_model_len: 8192,
            untrainable: null,
            is_loaded: true,
            num_requests: 3,
            num_running: 12,
            num_waiting: 0,
            kv_used_tokens: 4096,
            kv_cached_tokens: 1024,
            kv_capacity_tokens: 65_536,
            num_adapters: 1,
            steps: [],
            num_preemptions: 0,
            prompt_tokens: 26_240,
            generated_tokens: 1_280,
            prefix_query_tokens: 104_960,
            prefix_hit_tokens: 98_200,
            members: [
              {
                url: 'http://10.0.0.5:8000',
                kind: 'vllm',
                state: 'up',
                trouble: null,
                version: '0.32.0',
                num_choices: 12,
                num_adapters: 1,
                steps: [{ model: 'local/demo/agent', step: 12, since: 1_790_000_000 }],
                refused_steps: [],
                kv_use: 0.06,
                num_requests: 40,
                num_failures: 0,
                num_losses: 0,
                generated_tokens: 1_280,
                members: [],
              },
            ],
          },
        ],
      },
      training: { trouble: null, base_models: [BASE_MODEL] },
      machine: {
        num_cores: 8,
        load: 3.2,
        memory_bytes: 33_554_432_000,
        free_memory_bytes: 21_474_836_480,
        process_bytes: 268_435_456,
        free_disk_bytes: 214_748_364_800,
        sync_seconds: 0.004,
      },
      store: { trouble: null },
      tracking: { tracker: 'mlflow', trouble: null },
      processes: [
        { role: 'api', url: 'http://127.0.0.1:8420', version: '0.1.0', machine_trouble: null },
        { role: 'trainer', url: null, version: '0.1.0', machine_trouble: null },
      ],
    },
  },
  createExport: {
    path: { model_id: MODEL_ID },
    body: { format: 'peft', step: 3 },
    answer: { ...exported, status: 'queued', finished_at: null, files: [], parity: null },
  },
  listExports: { path: { model_id: MODEL_ID }, query: { limit: 20 }, answer: page(exported) },
  retrieveExport: { path: { model_id: MODEL_ID, export_id: EXPORT_ID }, answer: exported },
  downloadExportFile: { path: { model_id: MODEL_ID, export_id: EXPORT_ID, name: 'adapter_model.safetensors' } },
  deleteExport: { path: { model_id: MODEL_ID, export_id: EXPORT_ID }, answer: { id: EXPORT_ID, deleted: true } },
  createAdapter: {
    body: { base_model: BASE_MODEL },
    answer: { ...adapter, status: 'uploading', lora: null, digest: null },
  },
  listAdapters: { query: { limit: 20 }, answer: page(adapter) },
  retrieveAdapter: { path: { adapter_id: ADAPTER_ID }, answer: adapter },
  uploadAdapterFile: {
    path: { adapter_id: ADAPTER_ID, name: 'adapter_config.json' },
    answer: { adapter_id: ADAPTER_ID, name: 'adapter_config.json', size_bytes: 612 },
  },
  commitAdapter: { path: { adapter_id: ADAPTER_ID }, answer: adapter },
  deleteAdapter: { path: { adapter_id: ADAPTER_ID }, answer: { id: ADAPTER_ID, deleted: true } },
  createKey: {
    body: {
      name: 'ci',
      scopes: ['inference', 'training'],
      expires_at: 4_000_000_000,
      limits: { requests_per_minute: 60, max_requests_in_flight: 8 },
    },
    answer: { ...apiKey, secret: 'ty-AAAA_an-example-that-is-no-key_AAAAAAAAAAAAAAAAAAAA' },
  },
  listKeys: { answer: { object: 'list', data: [apiKey] } },
  updateKey: {
    path: { key_id: apiKey.id },
    body: { limits: { requests_per_minute: 60, tokens_per_minute: null } },
    answer: apiKey,
  },
  revokeKey: { path: { key_id: apiKey.id }, answer: { ...apiKey, revoked_at: 1_790_000_000 } },
  retrieveSession: { answer: { object: 'session', key: apiKey, expires_at: 1_792_592_000 } },
  createSession: {
    body: { code: 'AAAA_an-example-that-is-no-code_AAAAAAAAAAA' },
    answer: { object: 'session', key: apiKey, expires_at: 1_792_592_000 },
  },
  deleteSession: { answer: { object: 'session', key: null, expires_at: null } },
  createSessionLink: {
    answer: {
      object: 'session_link',
      path: '/sign-in#AAAA_an-example-that-is-no-code_AAAAAAAAAAA',
      expires_at: 1_790_000_900,
    },
  },
  live: { answer: { status: 'alive' } },
  ready: { answer: { status: 'ready', reasons: [] } },
  health: {
    answer: {
      status: 'healthy',
      reasons: [],
      parts: {
        database: { is_up: true, reason: null },
        bucket: null,
        engines: { ready: 1, total: 1 },
        trainers: { ready: 1, total: 1 },
        draining: false,
      },
    },
  },
  systemCheck: {
    answer: {
      api: true,
      database: true,
      cpu_queue: { success: true, duration: 0.004, errors: [] },
      gpu_queue: { success: true, duration: 0.003, errors: [] },
    },
  },
  version: { answer: { version: '0.1.0' } },
  openApi: { answer: { openapi: '3.1.0' } },
  home: {},
  reference: {},
};
