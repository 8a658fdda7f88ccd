/**
 * A server for a test, with scripted replies, with the real engine over a scripted model, or the real
 * service: `@trainyard/server/testing`.
 */
export { answerFault, eventFault, operationOf, refuseUndocumentedAnswers } from './documented-answers.ts';
export { OtlpReceiver, type ReceivedSpan } from './otlp-receiver.ts';
export { ScriptedEngineInference } from './scripted-engine.ts';
export { failure, replies, ScriptedInference } from './scripted-inference.ts';
export type { Script, ScriptedEnd, ScriptedStep } from './scripted-inference.ts';
export { END, type LogitsByText, ScriptedService } from './scripted-service.ts';
export { readEvents, readNamedEvents, type StreamedEvent, TestServer } from './test-server.ts';
export { type HubFault, type HubInfo, type HubRequest, LoopbackHub } from './hub/loopback-hub.ts';
export { type TinyRepository, tinyRepository } from './hub/tiny-repository.ts';
export { pullFromHub } from './hub/pull-from-hub.ts';
