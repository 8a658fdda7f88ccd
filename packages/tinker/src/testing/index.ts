/** A server of the protocol over a real tiny model, for tests of this and dependent packages. */
export { converse } from './conversation.ts';
export { type FakePolicy, FakeTinkerServer, tinyPolicy, type Fault, type SeenRequest } from './fake-tinker-server.ts';
export { HOSTED_LIKE, JSON_LIKE, SKYRL_0_3, SKYRL_0_4, type FakeDialect } from './fake-dialect.ts';
export { decodePassResult, encodePass } from '../wire/pass-proto.ts';
