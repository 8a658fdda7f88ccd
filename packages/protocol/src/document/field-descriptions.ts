import type { ChatCompletionField } from '../inference/chat-completion.ts';
import type { CompletionField } from '../inference/completion.ts';
import { SFT_EXPERIMENTAL_FIELDS, SFT_FIELDS } from '../fields/sft-fields.ts';
import { TRAINING_FIELDS } from '../fields/training-fields.ts';
import { jobWords } from '../training/job-properties.ts';
import type { LoraRequest } from '../training/lora.ts';
import type { CreateModelRequest, CreateTrainingJobRequest, LogTrajectoriesRequest } from '../training/preview.ts';
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
    'The base model by its id, or a trained model by `name`, `entity/project/name`, each with `:stepN` for one version, or an imported adapter as `adapter:ID`. Default: the base model.',
  logprobs: 'Answer with log-probabilities of the sampled tokens. Default: true for trained models, else false.',
  top_logprobs: 'How many likely tokens to list at each place. Default 0.',
  max_tokens: 'The most tokens to generate. Default: the rest of the context; more than fits is cut to what fits.',
  max_completion_tokens: 'As `max_tokens`, and wins over it.',
  response_format: 'The form of the reply.',
  stream: 'Answer as server-sent events. Default false.',
  stream_options: '`include_usage` adds a last chunk with the usage, `continuous_usage_stats` a count to every chunk.',
  tools: "Functions that the model may call; they are rendered by the model's chat template.",
  tool_choice: 'Which of the tools may or must be called. Default: `auto` with `tools`, else `none`.',
  parallel_tool_calls: 'False keeps the first call only. Default true.',
  reasoning_effort:
    'Given to the chat template, together with `enable_thinking`, which is false for `none` and else true unless `chat_template_kwargs` says otherwise.',
  user: 'Has no effect.',
  echo: 'Begin the reply with the last message where its role is that of the reply, and answer with `prompt_logprobs`. Default false.',
  add_generation_prompt: 'End the prompt where the reply begins. Default true.',
  continue_final_message: 'Go on inside the last message. Default false.',
  add_special_tokens: 'Tokenise the rendered template with the token that begins every text. Default false.',
  documents: "Given to the model's chat template.",
  chat_template: "A Jinja template in place of the model's own.",
  chat_template_kwargs: 'Further variables of the chat template, such as `enable_thinking`.',
  mm_processor_kwargs: 'Options for images and sound; no effect on a model of text.',
  media_io_kwargs: 'Options for images and sound; no effect on a model of text.',
  include_reasoning: 'Answer with the reasoning. Default true.',
  structured_outputs: 'A schema, pattern, choice or grammar that the reply must follow.',
  request_id: 'Becomes a part of the answer’s id; the header `X-Request-Id` wins.',
  session_id: 'Has no effect.',
  return_tokens_as_token_ids:
    'Write tokens of log-probabilities as `token_id:N`. Default: true for trained models, else false.',
  return_token_ids:
    'Answer with the ids of the prompt and of each choice. Default: true for the choices of trained models, else false.',
  return_prompt_text: 'Answer with the rendered prompt.',
  stream_interval: 'Tokens of one chunk. Default 1.',
  kv_transfer_params: 'For prefill on another machine; has no effect here.',
  ec_transfer_params: 'For encoding on another machine; has no effect here.',
  vllm_xargs: 'Arguments of custom samplers; this service has none, so they have no effect.',
  engine_xargs: 'Another name of `vllm_xargs`, with no effect either.',
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
    'A text, a list of texts, a list of token ids, or a list of such lists. In a text the texts of control tokens become those tokens; no template is applied.',
  echo: 'Begin each choice with its prompt: its text (left out with `return_token_ids`) and, with `logprobs`, its tokens. Default false.',
  logprobs: 'Answer with the log-probability of each token and so many of the most likely ones. Default: none.',
  max_tokens: 'The most tokens to generate. 0 needs `echo` and answers with the prompt alone. Default 16.',
  add_special_tokens:
    'Put the token in front of a text that begins every text of the model, if it has one. Default true.',
  return_tokens_as_token_ids: 'Write tokens of log-probabilities as `token_id:N`. Default false.',
  return_token_ids: 'Answer with the ids of the prompt and of each choice. Default false.',
  prompt_logprobs:
    'Answer with log-probabilities of the tokens of each prompt. Default: as `logprobs` with `echo`, else none.',
  return_prompt_text: 'Answer with the text of each prompt, control tokens included.',
  suffix: 'Text behind the completion, for models that fill gaps.',
  best_of: 'How many to sample for choosing the best `n`.',
  prompt_embeds: 'Embeddings in place of a prompt.',
};

const TRAINING_CONFIG_FIELDS: Readonly<Record<TrainingConfigField, string>> = jobWords(TRAINING_FIELDS);

const CREATE_MODEL_FIELDS: Readonly<Record<keyof CreateModelRequest, string>> = {
  entity: "Whose model it is. Default, and the only one allowed: the key's own.",
  project: 'Groups models; a part of the name for sampling.',
  name: 'Unique in its project.',
  base_model: 'Id of the served base model.',
  sampling_only:
    'Register the model although its base model cannot be trained: it can be sampled from, and training jobs are refused. Default false.',
  return_existing: 'Answer with the model of that name if there is one, rather than with 409. Default false.',
  lora: 'The shape of the adapter, and what it begins with. Fixed for the life of the model.',
};

const LORA_FIELDS: Readonly<Record<keyof LoraRequest, string>> = {
  rank: 'Inner dimension. Default 8.',
  alpha: 'The adapter is multiplied by alpha / rank. Default twice the rank.',
  targets: 'The adapted linear layers, in every block. Default all seven.',
  dropout: 'Only 0: ratios of probabilities need a policy that answers twice alike.',
  init_seed: 'Seed of the random half of a fresh adapter. Default 0.',
  init_from:
    "Begin with another model's checkpoint: `name:stepN`, `entity/project/name:stepN`, also behind `wandb-artifact:///`; without a step the latest. Its shape holds.",
};

const TRAJECTORY_GROUPS = 'Groups of rollouts, one group for each scenario.';

const LOG_TRAJECTORIES_FIELDS: Readonly<Record<keyof LogTrajectoriesRequest, string>> = {
  model_id: 'The same id as in the path; not used.',
  trajectory_groups: TRAJECTORY_GROUPS,
  split: 'Prefix of the metrics, such as `val`.',
};

const CREATE_TRAINING_JOB_FIELDS: Readonly<Record<keyof CreateTrainingJobRequest, string>> = {
  model_id: 'Id of the model, as registered.',
  trajectory_groups: `${TRAJECTORY_GROUPS} An empty list trains nothing and advances the step.`,
  experimental_config:
    'Settings of the job. Null and absent keys mean their defaults; unknown keys are listed as ignored.',
  config: 'The same settings under the name that supervised jobs have. Send one of the two.',
};

const GROUP_FIELDS: Readonly<Record<keyof SentTrajectoryGroup, string>> = {
  trajectories: 'Their rewards are compared with each other; equal rewards teach nothing.',
  exceptions: 'Rollouts that failed; they count in statistics only.',
  metadata: 'Kept with the log, not used.',
  metrics: 'Numbers of the group; their means become `<split>/group_…`.',
  logs: 'Kept with the log, not used.',
};

const TRAJECTORY_FIELDS: Readonly<Record<keyof SentTrajectory, string>> = {
  exchanges:
    'The calls of the rollout, instead of `messages_and_choices`: those to the model that is trained become histories, those to others are left out and counted.',
  messages_and_choices:
    'Messages (with `role`) and sampled choices as the service answered them (with `message` and `logprobs`). Only choices are trained.',
  tools: 'The tools that the conversation was rendered with.',
  chat_template_kwargs:
    'Variables of the chat template that the conversation was rendered with, for choices whose prompt is not recorded.',
  additional_histories: 'Further conversations of the same rollout, trained with the same reward.',
  reward: 'Any finite number; a boolean counts as 0 or 1. Default 0.',
  initial_policy_version: 'The step at the beginning of the rollout, not used.',
  final_policy_version: 'The step at the end of the rollout, not used.',
  metrics: 'Numbers of the rollout; their means become `<split>/…`.',
  metadata: 'Kept with the log, not used.',
  logs: 'Kept with the log, not used.',
};

const EXCHANGES_FIELDS: Readonly<Record<keyof WireExchanges, string>> = {
  chat_completions: 'Request and answer of each call, with `logprobs` in its choices.',
  completions:
    'Request and answer of each text completion, whose choices have a `record_id`, or `token_ids`, `prompt_token_ids` and `logprobs`.',
  responses: 'Request and answer of each call of the Responses API, whose answer has a `record_id`.',
  messages: 'Request and answer of each call of the Messages API, whose answer has a `record_id`.',
};

const HISTORY_FIELDS: Readonly<Record<keyof WireHistory, string>> = {
  messages_and_choices: TRAJECTORY_FIELDS.messages_and_choices,
  tools: TRAJECTORY_FIELDS.tools,
  chat_template_kwargs: TRAJECTORY_FIELDS.chat_template_kwargs,
};

const CREATE_SFT_TRAINING_JOB_FIELDS: Readonly<Record<keyof CreateSftTrainingJobRequest, string>> = {
  model_id: CREATE_TRAINING_JOB_FIELDS.model_id,
  training_data_url:
    'JSON lines, one conversation each: `wandb-artifact:///ENTITY/PROJECT/NAME:vN` (or `:latest`) for an upload, `data:` for small ones, `file:` below the folder that the service was given. Nothing is fetched from elsewhere.',
  config: 'Settings of the job. Null and absent keys mean their defaults; unknown keys are listed as ignored.',
  experimental_config: 'Settings that only this service has; as lenient as `config`.',
};

const SFT_CONFIG_FIELDS: Readonly<Record<keyof WireSftConfig, string>> = {
  ...jobWords(SFT_FIELDS),
  metric_logging: 'Accepted: the metrics of every step are events in any case.',
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
    sampling_params: 'What shapes the reply.',
  },
  MessagesRequest: { ...chatFields('model'), ...samplingWords('messages') },
  CountTokensRequest: chatFields('model'),
  CountInputTokensRequest: chatFields('model', 'tool_choice', 'parallel_tool_calls', 'chat_template_kwargs'),
  TrainingConfig: TRAINING_CONFIG_FIELDS,
  CreateModelRequest: CREATE_MODEL_FIELDS,
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
