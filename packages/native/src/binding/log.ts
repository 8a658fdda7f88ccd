import { koffi } from './koffi.ts';
import { library } from './library.ts';
import { structTypes } from './structs.ts';
import type { Pointer } from './structs.ts';

// ggml_log_level
const LOG_ERROR = 4;
const LOG_CONTINUATION = 5;

/** llama.cpp logs the cause first and its consequences later. */
const MAX_LINES = 8;

let callback: Pointer | undefined;
let lines: string[] = [];
let lastWasError = false;

/**
 * Returns llama.cpp's error lines and drops all other log lines. Only for calls that log on the calling thread
 * (load, create, quantise): see `logSink` in `library.ts`.
 */
export function captureErrors<T>(work: () => T): { result: T; errors: string } {
  const llama = library();
  callback ??= koffi().register(onLog, koffi().pointer(structTypes().LOG_CALLBACK));
  lines = [];
  lastWasError = false;
  llama.logSet(callback, null);
  try {
    const result = work();
    return { result, errors: lines.map((line) => line.trim().replaceAll(/\s*\n\s*/g, ' ')).join('; ') };
  } finally {
    llama.logSet(llama.ggml.logSink, null);
  }
}

function onLog(level: number, text: string | null): void {
  if (level === LOG_CONTINUATION) {
    if (lastWasError) lines[lines.length - 1] += text ?? '';
    return;
  }
  lastWasError = level === LOG_ERROR && lines.length < MAX_LINES;
  if (lastWasError) lines.push(text ?? '');
}
