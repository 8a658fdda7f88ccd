import type { OperationExample } from './operation-example.ts';

/** Examples of the routes with forms other than chats, and of related routes. */

const BASE_MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const CREATED = 1_767_225_600;
const question = 'Is the sky blue? Answer yes or no.';

const response = {
  id: 'resp_2a6f0e0f5b7c4a31',
  object: 'response',
  created_at: CREATED,
  completed_at: CREATED + 1,
  status: 'completed',
  error: null,
  incomplete_details: null,
  instructions: null,
  model: BASE_MODEL,
  output: [
    {
      type: 'message',
      id: 'msg_9c8e7d6f5a4b1f0a',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Yes', annotations: [], logprobs: [] }],
    },
  ],
  usage: {
    input_tokens: 41,
    input_tokens_details: { cached_tokens: 40, cache_write_tokens: 0 },
    output_tokens: 2,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 43,
  },
  system_fingerprint: 'trainyard-base',
  max_output_tokens: 16,
  temperature: 1,
  top_p: 1,
  top_logprobs: 0,
  tools: [],
  tool_choice: 'auto',
  parallel_tool_calls: true,
  text: { format: { type: 'text' } },
  reasoning: { effort: null, summary: null },
  metadata: {},
  store: true,
  background: false,
  previous_response_id: null,
  conversation: null,
  truncation: 'disabled',
  service_tier: 'default',
  user: null,
  safety_identifier: null,
  prompt_cache_key: null,
};

const inputItem = {
  type: 'message',
  id: 'msg_1f0a9c8e7d6f5a4b',
  role: 'user',
  content: [{ type: 'input_text', text: question }],
};

const conversation = {
  id: 'conv_5b7c4a312a6f0e0f9c8e7d6f5a4b1f0a',
  object: 'conversation',
  created_at: CREATED,
  metadata: { topic: 'colours' },
};
const conversationItem = { ...inputItem, status: 'completed' };
const conversationItems = {
  object: 'list',
  data: [conversationItem],
  first_id: inputItem.id,
  last_id: inputItem.id,
  has_more: false,
};

const responseEvent = {
  type: 'response.output_text.delta',
  sequence_number: 4,
  item_id: 'msg_9c8e7d6f5a4b1f0a',
  output_index: 0,
  content_index: 0,
  delta: 'Yes',
  logprobs: [],
};

export const FORM_EXAMPLES: Readonly<Record<string, OperationExample>> = {
  createResponse: {
    body: { input: question, max_output_tokens: 16 },
    answer: response,
    chunk: responseEvent,
  },
  getResponse: {
    path: { response_id: response.id },
    query: { starting_after: 3 },
    answer: response,
    chunk: responseEvent,
  },
  cancelResponse: {
    path: { response_id: response.id },
    answer: { ...response, status: 'cancelled', background: true, output: [], usage: null, completed_at: null },
  },
  deleteResponse: {
    path: { response_id: response.id },
    answer: { id: response.id, object: 'response', deleted: true },
  },
  listInputItems: {
    path: { response_id: response.id },
    query: { limit: 20, order: 'asc' },
    answer: {
      object: 'list',
      data: [inputItem],
      first_id: inputItem.id,
      last_id: inputItem.id,
      has_more: false,
    },
  },
  createConversation: {
    body: { items: [{ role: 'user', content: question }], metadata: { topic: 'colours' } },
    answer: conversation,
  },
  getConversation: { path: { conversation_id: conversation.id }, answer: conversation },
  updateConversation: {
    path: { conversation_id: conversation.id },
    body: { metadata: { topic: 'colours' } },
    answer: conversation,
  },
  deleteConversation: {
    path: { conversation_id: conversation.id },
    answer: { id: conversation.id, object: 'conversation.deleted', deleted: true },
  },
  createConversationItems: {
    path: { conversation_id: conversation.id },
    body: { items: [{ role: 'user', content: question }] },
    answer: conversationItems,
  },
  listConversationItems: {
    path: { conversation_id: conversation.id },
    query: { limit: 20, order: 'asc' },
    answer: conversationItems,
  },
  getConversationItem: {
    path: { conversation_id: conversation.id, item_id: inputItem.id },
    answer: conversationItem,
  },
  deleteConversationItem: {
    path: { conversation_id: conversation.id, item_id: inputItem.id },
    answer: conversation,
  },
  countInputTokens: {
    body: { input: question },
    answer: { object: 'response.input_tokens', input_tokens: 41 },
  },
  createMessage: {
    body: { max_tokens: 16, system: 'Be brief.', messages: [{ role: 'user', content: question }] },
    answer: {
      id: 'msg_2a6f0e0f5b7c4a31',
      type: 'message',
      role: 'assistant',
      model: BASE_MODEL,
      content: [{ type: 'text', text: 'Yes', citations: null }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      stop_details: null,
      container: null,
      usage: {
        input_tokens: 1,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 40,
        output_tokens: 2,
        output_tokens_details: null,
        service_tier: 'standard',
      },
      system_fingerprint: 'trainyard-base',
    },
    chunk: { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Yes' } },
  },
  countMessageTokens: {
    body: { messages: [{ role: 'user', content: question }] },
    answer: { input_tokens: 41 },
  },
  generateTokens: {
    body: { token_ids: [9, 10, 11], sampling_params: { max_tokens: 2, logprobs: 0 } },
    answer: {
      request_id: '2a6f0e0f5b7c4a31',
      choices: [
        {
          index: 0,
          token_ids: [12, 13],
          logprobs: {
            content: [
              { token: 'token_id:12', logprob: -0.41, bytes: [89], top_logprobs: [] },
              { token: 'token_id:13', logprob: -0.02, bytes: [101], top_logprobs: [] },
            ],
          },
          finish_reason: 'length',
          stop_reason: null,
          routed_experts: null,
        },
      ],
      prompt_logprobs: null,
      kv_transfer_params: null,
      usage: {
        prompt_tokens: 3,
        total_tokens: 5,
        completion_tokens: 2,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: null,
      },
    },
    chunk: {
      request_id: '2a6f0e0f5b7c4a31',
      choices: [{ index: 0, token_ids: [12], logprobs: null, finish_reason: null, stop_reason: null }],
    },
  },
  tokenizerInfo: {
    answer: {
      tokenizer_class: 'PreTrainedTokenizerFast',
      model_max_length: 8192,
      chat_template: "{% for message in messages %}{{ message['content'] }}{% endfor %}",
      bos_token: '<|im_start|>',
      eos_token: '<|im_end|>',
      pad_token: null,
      add_bos_token: false,
    },
  },
  loadLoraAdapter: { body: { lora_name: 'poet', lora_path: 'adapter:9e1f2a3b-4c5d-4e6f-8a7b-8c9d0e1f2a44' } },
  unloadLoraAdapter: { body: { lora_name: 'poet' } },
  metrics: {},
};
