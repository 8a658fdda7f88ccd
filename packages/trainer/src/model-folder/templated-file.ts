import { closeSync, openSync, realpathSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { GgufFile, NativeError } from '@trainyard/native';
import { readTemplateFile, standardTemplate, templatePlace } from './chat-templates.ts';
import { sourceFile } from './folder-files.ts';
import type { CopySource } from './model-copy.ts';
import { ModelFolderError } from './model-folder-error.ts';

/** A GGUF file with the chat template of another file. @throws {ModelFolderError} for a missing file */
export function templatedFile(path: string, chatTemplate: string): CopySource {
  const [model, template] = [realpathSync(path), templatePlace(chatTemplate)];
  return {
    label: basename(model).replace(/\.gguf$/i, ''),
    places: [model, template],
    files: () => new Map(Object.entries({ model: sourceFile(model), 'chat template': sourceFile(template) })),
    open() {
      const values = standardTemplate(readTemplateFile(template));
      const file = openGguf(model);
      return {
        sizeBytes: file.dataBytes,
        *write(copy) {
          const descriptor = openSync(copy, 'wx');
          try {
            for (const piece of file.contentWith(values)) {
              for (let done = 0; done < piece.length;) done += writeSync(descriptor, piece, done);
              yield;
            }
          } finally {
            closeSync(descriptor);
          }
        },
        [Symbol.dispose]: () => file.close(),
      };
    },
  };
}

function openGguf(path: string): GgufFile {
  try {
    return GgufFile.open(path);
  } catch (error) {
    throw error instanceof NativeError ? new ModelFolderError(error.message, { cause: error }) : error;
  }
}
