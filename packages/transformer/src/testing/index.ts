/** Tiny models with random weights, in memory and as files, for tests of this and dependent packages. */
export {
  architectureMetadata,
  LLAMA_CPP_ARCHITECTURES,
  TORCH_NAMES,
  TINY_ARCHITECTURES,
  type TinyName,
  TINY_CHAT_TEMPLATE,
  tinyContextLength,
  tinyTensors,
  writeTinyGguf,
} from './tiny-gguf.ts';
export { randomSource, TINY_ARCHITECTURE, tinyWeights, type Random } from './tiny-model.ts';
export { withoutTensor } from './without-tensor.ts';
export { writeAdapter } from './write-adapter.ts';
export { plainLogprobs, tabulatedGelu } from './plain-decoder.ts';
