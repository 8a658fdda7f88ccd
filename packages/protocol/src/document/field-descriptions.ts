import type { ChatCompletionField } from '../inference/chat-completion.ts';
import type { CompletionField } from '../inference/completion.ts';
import { SFT_EXPERIMENTAL_FIELDS, SFT_FIELDS } from '../fields/sft-fields.ts';
import { TRAINING_FIELDS } from '../fields/training-fields.ts';
import { jobWords } from '../training/job-properties.ts';
import type { LoraRequest } from '../training/lora.ts';
import type {
  CreateModelRequest,
  CreateTrainingJobRequest,
  LogTrajectoriesRequest,
  UpdateModelRequest,
} from '../training/preview.ts';
import { RESPONSES_CHAT_FIELDS } from '../inference/responses.ts';
import { samplingWords } from '../inference/sampling-properties.ts';
import type { CreateSftTrainingJobRequest, WireSftConfig, WireSftExperimentalConfig } from '../training/sft.ts';
import type { TokenizeRequest } from '../inference/tokenize.ts';
import type { TrainingConfigField } from '../training/training-config.ts';
import type { SentTrajectory, SentTrajectoryGroup, WireExchanges, WireHistory } from '../training/trajectory.ts';

/**
 * Descriptions of the fields of requests, by the title of the schema. A field without a description does not
 * compile.
 */

const CHAT_FIELDS: Readonly<Record<ChatCompletionField, string>> = {
  ...samplingWords('chat'),
  messages: "The conversation, oldest first. Any role is accepted; the model's chat template renders it.",
  model:
    'Id of a base model, name of a trained model (`name` or `entity/project/name`, optionally with `:stepN` for one version), or `adapter:ID` for an imported adapter. Default: the base model.',
  logprobs: 'Return log-probabilities of the sampled tokens. Default: true for trained models, else false.',
  top_logprobs: 'Number of most likely tokens to list at each position. Default 0.',
  max_tokens:
    'Maximum number of tokens to generate. Default: the rest of the context. A larger value is reduced to the rest of the context.',
  max_completion_tokens: 'Same as `max_tokens`; takes precedence over it.',
  response_format: 'Format of the reply.',
  stream: 'Stream the answer as server-sent events. Default false.',
  stream_options:
    '`include_usage` adds a final chunk with the usage. `continuous_usage_stats` adds a count to every chunk.',
  tools: 'Functions that the model may call, rendered by its chat template.',
  tool_choice: 'Controls which tools may or must be called. Default: `auto` with `tools`, else `none`.',
  parallel_tool_calls: 'False keeps only the first call. Default true.',
  reasoning_effort:
    'Passed to the chat template together with `enable_thinking`, which is false for `none` and otherwise true, unless `chat_template_kwargs` sets it.',
  user: 'Has no effect.',
  echo: 'Begin the reply with the last message where its role is that of the reply, and answer with `prompt_logprobs`. Default false.',
  add_generation_prompt: 'End the prompt with the start of the reply. Default true.',
  continue_final_message: 'Continue the last message instead of starting a new one. Default false.',
  add_special_tokens: 'Tokenise the rendered template with the beginning-of-text token. Default false.',
  documents: "Documents passed to the model's chat template.",
  chat_template: "Jinja template to use instead of the model's own.",
  chat_template_kwargs: 'Additional variables of the chat template, such as `enable_thinking`.',
  mm_processor_kwargs: 'Options for images and audio. Has no effect: models here are text-only.',
  media_io_kwargs: 'Options for images and audio. Has no effect: models here are text-only.',
  include_reasoning: 'Return the reasoning. Default true.',
  structured_outputs: 'Schema, pattern, choice or grammar that the reply must follow.',
  request_id: 'Used in the id of the answer. The header `X-Request-Id` takes precedence.',
  session_id: 'Has no effect.',
  return_tokens_as_token_ids:
    'Write tokens in log-probabilities as `token_id:N`. Default: true for trained models, else false.',
  return_token_ids:
    'Return the token ids of the prompt and of each choice. Default: true for the choices of trained models, else false.',
  return_prompt_text: 'Return the rendered prompt.',
  stream_interval: 'Number of tokens per chunk. Default 1.',
  kv_transfer_params: 'Options for prefill on another machine. Has no effect.',
  ec_transfer_params: 'Options for encoding on another machine. Has no effect.',
  vllm_xargs: 'Arguments of custom samplers. Has no effect: this service has none.',
  engine_xargs: 'Alias of `vllm_xargs`. Has no effect.',
};

const {
  messages: _messages,
  max_completion_tokens: _maxCompletionTokens,
  top_logprobs: _topLogprobs,
  tools: _tools,
  tool_choice: _toolChoice,
  parallel_tool_calls: _parallelToolCalls,
  ...SHARED_FIELDS
} = CHAT_FIELDS;

const COMPLETION_FIELDS: Readonly<Record<CompletionField, string>> = {
  ...SHARED_FIELDS,
  prompt:
    'A string, a list of strings, a list of token ids, or a list of such lists. In a string, the text of a control token is read as that token. No template is applied.',
  echo: 'Begin each choice with its prompt: its text (left out with `return_token_ids`) and, with `logprobs`, its tokens. Default false.',
  logprobs:
    'Number of most likely tokens to list per token, together with the log-probability of the token itself. Default: no log-probabilities.',
  max_tokens: 'Maximum number of tokens to generate. 0 requires `echo` and returns only the prompt. Default 16.',
  add_special_tokens: 'Put the beginning-of-text token of the model, if it has one, before the text. Default true.',
  return_tokens_as_token_ids: 'Write tokens in log-probabilities as `token_id:N`. Default false.',
  return_token_ids: 'Return the token ids of the prompt and of each choice. Default false.',
  prompt_logprobs: 'Return log-probabilities of the tokens of each prompt. Default: `logprobs` with `echo`, else none.',
  return_prompt_text: 'Return the text of each prompt, including control tokens.',
  suffix: 'Text after the completion, for models that fill in the middle.',
  best_of: 'Number of completions to sample, of which the best `n` are returned.',
  prompt_embeds: 'Embeddings instead of a prompt.',
};

const TRAINING_CONFIG_FIELDS: Readonly<Record<TrainingConfigField, string>> = jobWords(TRAINING_FIELDS);

const TAGS =
  'Words to find the model by: at most 32, each of 1 to 64 characters without commas and line breaks. Null and absent: none.';

const CREATE_MODEL_FIELDS: Readonly<Record<keyof CreateModelRequest, string>> = {
  entity: "Owner of the model. Must be the key's own entity, which is the default.",
  project: 'Group of the model; part of the name to sample with.',
  name: 'Unique in its project.',
  base_model: 'Id of the served base model.',
  sampling_only:
    'Register the model even if its base model cannot be trained. It can be sampled from; training jobs are refused. Default false.',
  return_existing: 'Return the existing model of that name instead of 409. Default false.',
  lora: 'Shape and initial weights of the adapter. Fixed for the life of the model.',
  tags: TAGS,
  notes: 'Free text about the model, 10,000 characters at most. Default: empty.',
};

const UPDATE_MODEL_FIELDS: Readonly<Record<keyof UpdateModelRequest, string>> = {
  add_tags: TAGS,
  remove_tags: 'Tags to remove, before others are added. Missing ones are no error.',
  notes: 'Replaces the notes. Empty: none.',
  is_archived:
    'Archive the model, or return it to the lists. A model with unfinished training jobs is not archived (409). An archived model is sampled from as before, and takes no training jobs.',
};

const LORA_FIELDS: Readonly<Record<keyof LoraRequest, string>> = {
  rank: 'Inner dimension. Default 8.',
  alpha:
    'The adapter is multiplied by alpha / rank, or by alpha / √rank with `use_rslora`. Default: twice the rank; with `use_rslora` 16.',
  targets: 'Adapted linear layers, in every block: a list, one name, or `all-linear`, the default.',
  use_rslora: 'Multiply by alpha / √rank (rank-stabilised LoRA). Default false.',
  rank_pattern:
    'Ranks of some modules, by layer (`q_proj`) or path (`layers.3.self_attn.q_proj`); paths come before layers. Default: none.',
  alpha_pattern: 'Alphas of some modules, likewise. Default: none.',
  modules_to_save: 'Must be empty: adapters share the frozen weights of their base model.',
  experts:
    'Adapt the experts of a mixture of experts. Refused for base models without trainable experts. Default false.',
  dropout: 'Must be 0: probability ratios need a deterministic policy.',
  init_seed: 'Seed of the random half of a new adapter. Default 0.',
  init_from:
    "Begin with another model's checkpoint: `name:stepN`, `entity/project/name:stepN`, also with the prefix `wandb-artifact:///`; without a step the latest. Its shape holds.",
};

const TRAJECTORY_GROUPS = 'Groups of rollouts, one group per scenario.';

const LOG_TRAJECTORIES_FIELDS: Readonly<Record<keyof LogTrajectoriesRequest, string>> = {
  model_id: 'Same id as in the path. Not used.',
  trajectory_groups: TRAJECTORY_GROUPS,
  split: 'Prefix of the metrics, such as `val`.',
};

const CREATE_TRAINING_JOB_FIELDS: Readonly<Record<keyof CreateTrainingJobRequest, string>> = {
  model_id: 'Id of the model, as registered.',
  trajectory_groups: `${TRAJECTORY_GROUPS} With an empty list, the job trains nothing and only advances the step.`,
  experimental_config:
    'Settings of the job. Null and missing keys use their defaults; unknown keys are listed as ignored.',
  config: 'Same settings under the name that supervised jobs use. Send only one of the two.',
};

const GROUP_FIELDS: Readonly<Record<keyof SentTrajectoryGroup, string>> = {
  trajectories: 'Rollouts whose rewards are compared with each other. Equal rewards train nothing.',
  exceptions: 'Failed rollouts. Counted only in statistics.',
  metadata: 'Stored with the log. Not used.',
  metrics: 'Metrics of the group. Their means are logged as `<split>/group_…`.',
  logs: 'Stored with the log. Not used.',
};

const TRAJECTORY_FIELDS: Readonly<Record<keyof SentTrajectory, string>> = {
  exchanges:
    'Calls of the rollout, instead of `messages_and_choices`. Calls to the trained model become histories; calls to other models are skipped and counted.',
  messages_and_choices:
    'Messages (with `role`) and sampled choices as the service returned them (with `message` and `logprobs`). Only choices are trained.',
  tools: 'Tools that the conversation was rendered with.',
  chat_template_kwargs:
    'Chat template variables that the conversation was rendered with. Used for choices without a recorded prompt.',
  additional_histories: 'Additional conversations of the same rollout, trained with the same reward.',
  reward: 'Any finite number; a boolean counts as 0 or 1. Default 0.',
  initial_policy_version: 'Step at the start of the rollout. Not used.',
  final_policy_version: 'Step at the end of the rollout. Not used.',
  metrics: 'Metrics of the rollout. Their means are logged as `<split>/…`.',
  metadata: 'Stored with the log. Not used.',
  logs: 'Stored with the log. Not used.',
};

const EXCHANGES_FIELDS: Readonly<Record<keyof WireExchanges, string>> = {
  chat_completions: 'Request and response of each call, with `logprobs` in its choices.',
  completions:
    'Request and response of each text completion. Its choices need `record_id`, or `token_ids`, `prompt_token_ids` and `logprobs`.',
  responses: 'Request and response of each call of the Responses API. The response needs a `record_id`.',
  messages: 'Request and response of each call of the Messages API. The response needs a `record_id`.',
};

const HISTORY_FIELDS: Readonly<Record<keyof WireHistory, string>> = {
  messages_and_choices: TRAJECTORY_FIELDS.messages_and_choices,
  tools: TRAJECTORY_FIELDS.tools,
  chat_template_kwargs: TRAJECTORY_FIELDS.chat_template_kwargs,
};

const CREATE_SFT_TRAINING_JOB_FIELDS: Readonly<Record<keyof CreateSftTrainingJobRequest, string>> = {
  model_id: CREATE_TRAINING_JOB_FIELDS.model_id,
  training_data_url:
    'URL of JSON lines, one conversation per line: `wandb-artifact:///ENTITY/PROJECT/NAME:vN` (or `:latest`) for an upload, `data:` for small data, `file:` for a file in the data folder of the service. Nothing is fetched from the network.',
  held_out_data_url:
    'Conversations that are not trained, in the forms of `training_data_url`: the job reports their loss in `held_out` events and as the metric `held_out/loss`. Default: none.',
  config: 'Settings of the job. Null and missing keys use their defaults; unknown keys are listed as ignored.',
  experimental_config: 'Settings specific to this service; validated as leniently as `config`.',
};

const SFT_CONFIG_FIELDS: Readonly<Record<keyof WireSftConfig, string>> = {
  ...jobWords(SFT_FIELDS),
  metric_logging: 'Accepted. The metrics of every step are always reported as events.',
};

const SFT_EXPERIMENTAL_CONFIG_FIELDS: Readonly<Record<keyof WireSftExperimentalConfig, string>> =
  jobWords(SFT_EXPERIMENTAL_FIELDS);

const TOKENIZE_FIELDS: Readonly<Partial<Record<keyof TokenizeRequest, string>>> = {
  model: CHAT_FIELDS.model,
  tools: CHAT_FIELDS.tools,
  documents: CHAT_FIELDS.documents,
  reasoning_effort: CHAT_FIELDS.reasoning_effort,
  chat_template_kwargs: CHAT_FIELDS.chat_template_kwargs,
  continue_final_message: CHAT_FIELDS.continue_final_message,
  chat_template: CHAT_FIELDS.chat_template,
};

/** Descriptions of fields that another form shares with chats; its own fields have theirs in the schema. */
function chatFields(...names: ChatCompletionField[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, CHAT_FIELDS[name]]));
}

/** Descriptions by schema title, then by field name. */
export const FIELD_DESCRIPTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ChatCompletionRequest: CHAT_FIELDS,
  CompletionRequest: COMPLETION_FIELDS,
  ResponsesRequest: chatFields('model', 'tool_choice', ...RESPONSES_CHAT_FIELDS),
  TokenSampling: { ...samplingWords('tokens'), ...chatFields('structured_outputs') },
  GenerateTokensRequest: {
    ...chatFields('model', 'stream', 'stream_options', 'request_id', 'cache_salt', 'priority'),
    sampling_params: 'Fields that shape the reply.',
  },
  MessagesRequest: { ...chatFields('model'), ...samplingWords('messages') },
  CountTokensRequest: chatFields('model'),
  CountInputTokensRequest: chatFields('model', 'tool_choice', 'parallel_tool_calls', 'chat_template_kwargs'),
  TrainingConfig: TRAINING_CONFIG_FIELDS,
  CreateModelRequest: CREATE_MODEL_FIELDS,
  UpdateModelRequest: UPDATE_MODEL_FIELDS,
  LoraRequest: LORA_FIELDS,
  LogTrajectoriesRequest: LOG_TRAJECTORIES_FIELDS,
  CreateTrainingJobRequest: CREATE_TRAINING_JOB_FIELDS,
  CreateSftTrainingJobRequest: CREATE_SFT_TRAINING_JOB_FIELDS,
  SftConfig: SFT_CONFIG_FIELDS,
  SftExperimentalConfig: SFT_EXPERIMENTAL_CONFIG_FIELDS,
  TrajectoryGroup: GROUP_FIELDS,
  Trajectory: TRAJECTORY_FIELDS,
  Exchanges: EXCHANGES_FIELDS,
  History: HISTORY_FIELDS,
  TokenizeRequest: TOKENIZE_FIELDS,
  DetokenizeRequest: { model: CHAT_FIELDS.model },
};
