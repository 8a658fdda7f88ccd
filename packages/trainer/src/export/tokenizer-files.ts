import { join } from 'node:path';
import type { GgufFile, LlamaModel } from '@trainyard/native';
import type { Tokenizer } from '@trainyard/tokenizer';
import { writeDurableText } from '../checkpoint/durable-directory.ts';
import { tokenizerJson } from './tokenizer-json.ts';

/**
 * Writes tokenizer_config.json (control tokens, chat template), generation_config.json (end tokens), and
 * tokenizer.json if it can represent the vocabulary.
 */
export function writeTokenizerFiles(
  directory: string,
  source: GgufFile,
  { vocabulary, tokenizer, contextLength }: { vocabulary: LlamaModel; tokenizer: Tokenizer; contextLength: number },
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
  const hasStart = vocabulary.addsBos && bosTokenId !== null;
  const startToken = hasStart ? { id: bosTokenId, text: tokenizer.tokenText(bosTokenId) } : null;
  for (const [name, content] of [
    ['tokenizer.json', tokenizerJson(source, startToken)],
    ['tokenizer_config.json', tokenizerConfig],
    ['generation_config.json', generationConfig],
  ] as const) {
    if (content !== null) writeDurableText(join(directory, name), `${JSON.stringify(content, null, 2)}\n`);
  }
}
