/** Thread that opens a session with the shared arena on a message, and reports if it had it. */
import { parentPort } from 'node:worker_threads';
import { additionModel } from '../testing/addition-model.ts';
import { onnxLibrary } from './onnx-library.ts';
import { OnnxSession } from './onnx-session.ts';

parentPort!.once('message', () => {
  const names = { inputNames: ['a', 'b'], outputNames: ['sum'] };
  const session = new OnnxSession(additionModel(), { ...names, numThreads: 1, sharesArena: true });
  const sum = { data: new Float32Array(2), dims: [2] };
  session.run([sum, sum], [sum]);
  session.close();
  parentPort!.postMessage(onnxLibrary().hasSharedArena());
});
