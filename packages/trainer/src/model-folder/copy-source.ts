import { statSync } from 'node:fs';
import { folderSource } from './folder-source.ts';
import type { CopySource } from './model-copy.ts';
import { templatedFile } from './templated-file.ts';

/**
 * Source of a copy, if a base model needs one.
 *
 * @param path GGUF file, or folder in the Hugging Face format
 * @param chatTemplate file of a chat template that replaces the model's; null: the model's stays
 * @returns null for a GGUF file that is used as it is
 * @throws {ModelFolderError}
 */
export function copySource(path: string, chatTemplate: string | null): CopySource | null {
  if (statSync(path).isDirectory()) return folderSource(path, chatTemplate);
  return chatTemplate === null ? null : templatedFile(path, chatTemplate);
}
