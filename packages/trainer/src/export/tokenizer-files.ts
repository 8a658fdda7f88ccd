import { join } from 'node:path';
import type { LlamaModel } from '@trainyard/native';
import type { Tokenizer } from '@trainyard/tokenizer';
import { writeDurableText } from '../durable-directory.ts';

/**
 * tokenizer_config.json with the control tokens and the chat template, and generation_config.json with the tokens that end an answer.
 *
 * Not written is tokenizer.json: what a GGUF file says of its splitter is a name, which each program knows by itself.
 */
export function writeTokenizerFiles(
  directory: string,
  vocabulary: LlamaModel,
  tokenizer: Tokenizer,
  contextLength: number,
): void {
  const textOf = (id: number | null) => (id === null ? null : tokenizer.tokenText(id));
  const { bosTokenId, eosTokenId } = tokenizer;
  const tokenizerConfig = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    add_bos_token: vocabulary.addsBos,
    bos_token: textOf(bosTokenId),
    eos_token: textOf(eosTokenId),
    pad_token: textOf(eosTokenId),
    model_max_length: contextLength,
    clean_up_tokenization_spaces: false,
    ...(vocabulary.chatTemplate === undefined ? {} : { chat_template: vocabulary.chatTemplate }),
  };
  const generationConfig = {
    bos_token_id: bosTokenId,
    eos_token_id: [...tokenizer.endTokenIds],
    pad_token_id: eosTokenId,
  };
  for (const [name, content] of [
    ['tokenizer_config.json', tokenizerConfig],
    ['generation_config.json', generationConfig],
  ] as const) {
    writeDurableText(join(directory, name), `${JSON.stringify(content, null, 2)}\n`);
  }
}
