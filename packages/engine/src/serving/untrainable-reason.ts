import { GgufFile } from '@trainyard/native';
import { readArchitecture, UnsupportedModelError } from '@trainyard/transformer';

/** Reason for which a file's model cannot be trained, with the setting, tensor or architecture; null if it can. */
export function untrainableReason(path: string): string | null {
  using file = GgufFile.open(path);
  try {
    readArchitecture(file);
    return null;
  } catch (error) {
    if (error instanceof UnsupportedModelError) return error.message;
    throw error;
  }
}
