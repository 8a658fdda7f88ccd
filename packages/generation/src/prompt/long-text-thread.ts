/** Main module of the thread that encodes long texts: each message is a text, and has one answer. */
import { parentPort, workerData } from 'node:worker_threads';
import { LlamaModel } from '@trainyard/native';
import { Tokenizer, TokenizerError } from '@trainyard/tokenizer';

export interface LongTextThreadData {
  readonly modelPath: string;
}

export type LongTextAnswer =
  | { readonly kind: 'ids'; readonly ids: Int32Array<ArrayBuffer> }
  | { readonly kind: 'refused'; readonly code: TokenizerError['code']; readonly message: string };

const port = parentPort;
if (port === null) throw new Error('the thread is started by LongTexts, not by hand');
const { modelPath } = workerData as LongTextThreadData;
const tokenizer = Tokenizer.fromModel(LlamaModel.load(modelPath, { vocabOnly: true }));

port.on('message', (text: string) => {
  const answer = answerTo(text);
  port.postMessage(answer, answer.kind === 'ids' ? [answer.ids.buffer] : []);
});

/** @throws whatever is no refusal of the text: it ends the thread */
function answerTo(text: string): LongTextAnswer {
  try {
    // A copy of its own, which can be handed over.
    return { kind: 'ids', ids: Int32Array.from(tokenizer.encodeWithSpecial(text)) };
  } catch (error) {
    if (!(error instanceof TokenizerError)) throw error;
    return { kind: 'refused', code: error.code, message: error.message };
  }
}
