import { ChatTemplate, Tokenizer, TokenizerError } from '@trainyard/tokenizer';
import { ByteVocabulary, comparePrompts } from '@trainyard/tokenizer/testing';

import { isDescribed } from './in-process.ts';
import type { Comparison, Conversation, Pairs } from './pairs.ts';

/** Text that ends a turn, and other control tokens, as in the tokenizers of these models. */
interface Family {
  readonly templates: readonly string[];
  readonly end: string;
  readonly control?: readonly string[];
}

const CHATML = { end: '<|im_end|>', control: ['<|im_start|>'] };
const FAMILIES: Readonly<Record<string, Family>> = {
  'Qwen 2.5': { templates: ['trl/qwen2_5.jinja', 'llama-cpp/Qwen-Qwen2.5-7B-Instruct.jinja'], ...CHATML },
  'Qwen 3': {
    templates: ['trl/qwen3.jinja', 'trl/qwen3_instruct_2507.jinja', 'llama-cpp/Qwen-QwQ-32B.jinja'],
    ...CHATML,
  },
  'Qwen 3.5': { templates: ['trl/qwen3_5_think.jinja', 'trl/qwen3_6.jinja', 'llama-cpp/Qwen3.5-4B.jinja'], ...CHATML },
  'Qwen 3 Coder': { templates: ['llama-cpp/Qwen3-Coder.jinja'], ...CHATML },
  'Llama 3': {
    templates: ['trl/llama3_1.jinja', 'trl/llama3_2.jinja', 'llama-cpp/meta-llama-Llama-3.3-70B-Instruct.jinja'],
    end: '<|eot_id|>',
    control: ['<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>'],
  },
  'Gemma 3': { templates: ['trl/gemma3.jinja'], end: '<end_of_turn>', control: ['<bos>', '<start_of_turn>'] },
  'Gemma 4': {
    templates: ['trl/gemma4.jinja', 'trl/gemma4_v5.jinja', 'llama-cpp/google-gemma-4-31B-it.jinja'],
    end: '<turn|>',
    control: ['<bos>', '<|turn>', '<|tool>', '<tool|>', '<|tool_response>', '<|"|>'],
  },
  'GLM 4': {
    templates: ['trl/glm4moe.jinja', 'llama-cpp/GLM-4.6.jinja', 'llama-cpp/GLM-4.7-Flash.jinja'],
    end: '<|endoftext|>',
    control: ['[gMASK]', '<sop>', '<|system|>', '<|user|>', '<|assistant|>', '<|observation|>'],
  },
  'gpt-oss': {
    templates: ['trl/gptoss.jinja', 'llama-cpp/openai-gpt-oss-120b.jinja'],
    end: '<|return|>',
    control: ['<|start|>', '<|end|>', '<|message|>', '<|channel|>', '<|constrain|>', '<|call|>'],
  },
  'DeepSeek V3': {
    templates: ['trl/deepseekv3.jinja', 'llama-cpp/deepseek-ai-DeepSeek-V3.1.jinja'],
    end: '<｜end▁of▁sentence｜>',
    control: ['<｜begin▁of▁sentence｜>', '<｜User｜>', '<｜Assistant｜>'],
  },
  'Kimi K2': {
    templates: ['llama-cpp/Kimi-K2-Instruct.jinja', 'llama-cpp/Kimi-K2-Thinking.jinja'],
    end: '<|im_end|>',
    control: ['<|im_user|>', '<|im_assistant|>', '<|im_system|>', '<|im_middle|>'],
  },
  'Mistral Small': {
    templates: [
      'llama-cpp/Mistral-Small-3.2-24B-Instruct-2506.jinja',
      'llama-cpp/unsloth-mistral-Devstral-Small-2507.jinja',
    ],
    end: '</s>',
    control: ['<s>', '[INST]', '[/INST]', '[TOOL_CALLS]', '[TOOL_RESULTS]', '[/TOOL_RESULTS]'],
  },
  'Nemotron 3': { templates: ['trl/nemotron_3_nano.jinja', 'trl/nemotron_3_super.jinja'], ...CHATML },
  'Granite 4': {
    templates: ['llama-cpp/ibm-granite-granite-4.0.jinja'],
    end: '<|end_of_text|>',
    control: ['<|start_of_role|>', '<|end_of_role|>'],
  },
  'MiniMax M2': { templates: ['llama-cpp/MiniMax-M2.jinja'], end: '[e~[', control: [']~!b[', ']~b]'] },
  'Phi 3.5': { templates: ['trl/phi3_5.jinja'], end: '<|end|>', control: ['<|user|>', '<|assistant|>', '<|system|>'] },
  LFM2: { templates: ['trl/lfm2.jinja', 'llama-cpp/LFM2.5-Instruct.jinja'], ...CHATML },
};

const SIZE = { maxTextBytes: 2_000_000 };

type Fault = Comparison['faults'][number];

/**
 * Trains conversations as histories with unknown prompts, and compares the tokens before each reply with the
 * prompt of a chat at that point.
 */
export function compareTraining({ templates, conversations }: Pairs): Comparison {
  const faults: Fault[] = [];
  let numReplies = 0;
  let numBranches = 0;
  let numReported = 0;
  for (const [family, { templates: names, end, control = [] }] of Object.entries(FAMILIES)) {
    const tokenizer = new Tokenizer(new ByteVocabulary({ controlTokens: [...control, end], endToken: end }), SIZE);
    let numOfFamily = 0;
    for (const name of names) {
      const { source } = templates.find((one) => one.name === name)!;
      const template = new ChatTemplate(tokenizer, source);
      for (const conversation of conversations) {
        const compared = isDescribed(template, conversation) ? null : compareOrNull(template, conversation);
        if (compared === null) continue;
        numOfFamily += compared.numReplies;
        numBranches += compared.numBranches;
        // A job warns of prompts that may have been different.
        if (compared.different.length === compared.numReported) numReported += compared.numReported;
        else
          for (const fault of compared.different)
            faults.push({ template: name, conversation: conversation.name, fault });
      }
    }
    numReplies += numOfFamily;
    if (numOfFamily === 0) faults.push({ template: family, conversation: 'all', fault: 'nothing is trained' });
  }
  const numFamilies = Object.keys(FAMILIES).length;
  const numEqual = numReplies - numReported - faults.length;
  return {
    counts: `${numFamilies} families, ${numReplies} replies, ${numBranches} branches: ${numEqual} equal, ${numReported} reported as divergent, ${faults.length} other`,
    faults,
  };
}

/** Null for a conversation, or a prefix of it, that the template refuses: it trains nothing. */
function compareOrNull(template: ChatTemplate, conversation: Conversation) {
  try {
    return comparePrompts(template, conversation.messages, conversation.options);
  } catch (error) {
    if (error instanceof TokenizerError) return null;
    throw error;
  }
}
