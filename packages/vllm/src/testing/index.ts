/** vLLM's HTTP without vLLM: `@trainyard/vllm/testing`. */
export { FakeVllm } from './fake-vllm.ts';
export type { Fault, FakeVllmOptions } from './fake-vllm.ts';
