import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GgufFile } from '@trainyard/native';
import { type Architecture, readArchitecture } from '@trainyard/transformer';
import { TINY_CHAT_TEMPLATE, tinyContextLength, writeTinyGguf } from '@trainyard/transformer/testing';
import { MergedWeights, type MergedType } from '../export/merged-weights.ts';
import { writeMergedSafetensors } from '../export/merged-safetensors.ts';
import { tokenizerJson } from '../export/tokenizer-json.ts';

/**
 * Writes a random model as a GGUF file, and the same one as a folder in the Hugging Face format.
 *
 * @param folder must not exist
 */
export async function writeTinyFolder(
  folder: string,
  ggufPath: string,
  architecture: Architecture,
  { isTied = false, type = 'f32' }: { readonly isTied?: boolean; readonly type?: MergedType } = {},
): Promise<void> {
  writeTinyGguf(ggufPath, architecture, { isTied });
  using source = GgufFile.open(ggufPath);
  mkdirSync(folder);
  const facts = {
    contextLength: tinyContextLength(architecture),
    bosTokenId: 257,
    eosTokenId: 258,
    hasTiedEmbeddings: isTied,
  };
  const model = { source, architecture: readArchitecture(source), facts, type };
  await writeMergedSafetensors(folder, model, new MergedWeights(source, architecture, null), {});
  const tokenizerConfig = { bos_token: '<|im_start|>', eos_token: '<|im_end|>', chat_template: TINY_CHAT_TEMPLATE };
  for (const [name, content] of [
    ['tokenizer.json', tokenizerJson(source, null)],
    ['tokenizer_config.json', tokenizerConfig],
  ] as const) {
    writeFileSync(join(folder, name), JSON.stringify(content));
  }
}
