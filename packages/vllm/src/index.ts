/** vLLM servers as a sampling back end. */
export { examineServer } from './server/examine-server.ts';
export { UnusableServer } from './server/server-facts.ts';
export type { ServerTimes } from './server/vllm-server.ts';
export { VllmBackend } from './vllm-backend.ts';
export type { VllmBackendOptions } from './vllm-backend.ts';
export { readServerAddress } from './wire/server-address.ts';
