import { realpathSync } from 'node:fs';
import { GgufWriter } from '@trainyard/native';
import { templatePlace } from './chat-templates.ts';
import type { CopySource } from './model-copy.ts';
import { folderFiles, folderLabel, ModelFolder } from './model-folder.ts';

/** A folder in the Hugging Face format. @param chatTemplate file of another chat template. @throws {ModelFolderError} */
export function folderSource(path: string, chatTemplate: string | null = null): CopySource {
  const real = realpathSync(path);
  return {
    label: folderLabel(real),
    places: [real, ...(chatTemplate === null ? [] : [templatePlace(chatTemplate)])],
    files: () => folderFiles(path, chatTemplate),
    open() {
      const folder = ModelFolder.open(path, chatTemplate);
      return {
        sizeBytes: folder.tensors.reduce((sum, tensor) => sum + tensor.sizeBytes, 0),
        *write(copy) {
          using writer = new GgufWriter(copy, folder.metadata, folder.tensors);
          for (const tensor of folder.tensors) {
            yield;
            writer.addBytes(tensor.bytes());
          }
          writer.finish();
        },
        [Symbol.dispose]: () => folder[Symbol.dispose](),
      };
    },
  };
}
